import { SandboxUnsupported } from '../sandbox.ts'

/** A user of a sandbox. Undefined `groups` means those of this process, which an ordinary user cannot change. */
export type UserAccount = { uid: number; gid: number; groups: number[] | undefined; home: string }

/** User that the launcher switches to. Undefined if the engine itself starts the command as its user, as for root. */
export type SandboxIdentity = UserAccount | undefined

/** Contents of /etc/passwd and /etc/group. Undefined: file missing. */
export type AccountFiles = { passwd: string | undefined; group: string | undefined }

/** Larger account files are ignored. */
export const ACCOUNT_FILE_MAX_BYTES = 1e6
/** Ids must be below this number. */
const ID_LIMIT = 2 ** 31

/**
 * Resolves `name`, `uid`, `name:group` or `uid:gid` as Docker does. `root` needs no entry. Throws SandboxUnsupported for other
 * unknown names.
 */
export function resolveAccount(files: AccountFiles, user: string | number): UserAccount {
  const [name = '', group] = String(user).split(':')
  const entry = parsePasswd(files.passwd).find((each) => each.login === name || each.uid === name)
  const groups = parseGroups(files.group)
  const uid = parseId(entry?.uid ?? (name === 'root' ? '0' : name))
  if (uid === undefined) throw new SandboxUnsupported(`The image has no user ${JSON.stringify(name)}.`)
  const gid = group ? requireGroup(groups, group) : (parseId(entry?.gid ?? '') ?? 0)
  // A user with an explicit group is in no other one.
  const memberships = group ? [] : groups.filter(({ members }) => entry?.login && members.includes(entry.login))
  const otherGids = memberships.flatMap((each) => parseId(each.gid) ?? [])
  return { uid, gid, groups: [...new Set([gid, ...otherGids])], home: entry?.home || '/' }
}

type GroupEntry = { name: string; gid: string; members: string[] }

function requireGroup(groups: readonly GroupEntry[], name: string): number {
  const gid = parseId(groups.find((each) => each.name === name || each.gid === name)?.gid ?? name)
  if (gid === undefined) throw new SandboxUnsupported(`The image has no group ${JSON.stringify(name)}.`)
  return gid
}

const parsePasswd = (text = '') =>
  text.split('\n').map((line) => {
    const [login = '', , uid, gid, , home] = line.split(':')
    return { login, uid, gid, home }
  })

const parseGroups = (text = ''): GroupEntry[] =>
  text.split('\n').map((line) => {
    const [name = '', , gid = '', members = ''] = line.split(':')
    return { name, gid, members: members.split(',') }
  })

const parseId = (text: string): number | undefined =>
  /^\d{1,10}$/.test(text) && Number(text) < ID_LIMIT ? Number(text) : undefined

/** Capabilities of root in a sandbox: enough for a package manager, and limited to the sandbox's own files. */
export const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID']

/**
 * Capability that only the first process of a sandbox has, so that the kernel refuses to let other processes trace it.
 */
export const FIRST_PROCESS_CAPABILITY = 'SETPCAP'

/** Returns a bounding set as the value of setpriv's `--bounding-set`. */
export const formatBoundingSet = (capabilities: string[]): string =>
  ['-all', ...capabilities.map((name) => `+${name.toLowerCase()}`)].join(',')

export const HOSTNAME = 'sandbox'

/** Type and size of the file at a path. A link in its last part is not followed. */
export type FileKind = { isFile: boolean; isFolder: boolean; bytes: number }

/** File that selects the libraries for user lookups. An agent could use it to load its own code into our programs. */
export const LOOKUP_SETTINGS = '/etc/nsswitch.conf'

/** Files that container runtimes, or programs that they start as root, open when a sandbox starts. */
const OPENED_FILES = [
  ...['/etc/passwd', '/etc/group', '/etc/shadow', '/etc/gshadow', '/etc/subuid', '/etc/subgid'],
  ...['/etc/hosts', '/etc/hostname', '/etc/resolv.conf', LOOKUP_SETTINGS],
]

/**
 * Lists which of the files that a runtime opens are not ordinary files: a named pipe would block it, a link would
 * redirect it, and a huge file would keep it busy. A missing file is harmless.
 */
export async function listUnsafePaths(statFile: (path: string) => Promise<FileKind | undefined>): Promise<string[]> {
  const folder = await statFile('/etc')
  if (folder === undefined) return []
  if (!folder.isFolder) return ['/etc']
  const unsafe: string[] = []
  for (const path of OPENED_FILES) {
    const file = await statFile(path)
    const isOrdinary = file?.isFile && file.bytes <= ACCOUNT_FILE_MAX_BYTES
    if (file && !isOrdinary) unsafe.push(path)
  }
  return unsafe
}

/** Returns the replacement account files: paths in an archive with their contents. */
export const toAccountEntries = ({ passwd, group }: AccountFiles): { path: string; content: string }[] => [
  { path: 'etc/passwd', content: passwd ?? '' },
  { path: 'etc/group', content: group ?? '' },
]
