import { SandboxUnsupported } from '../sandbox.ts'

/** A user of a sandbox. Undefined `groups` means those of this process, which an ordinary user cannot change. */
export type UserAccount = { uid: number; gid: number; groups: number[] | undefined; home: string }

/** User that the launcher switches to. Undefined if the engine itself starts the command as its user, as for root. */
export type SandboxIdentity = UserAccount | undefined

/** Contents of /etc/passwd and /etc/group. Undefined: file missing. */
export type AccountFiles = { passwd: string | undefined; group: string | undefined }

/** Larger account files are ignored. */
export const ACCOUNT_FILE_MAX_BYTES = 1e6
const ID_MAX = 2 ** 31

/**
 * Resolves `name`, `uid`, `name:group` or `uid:gid` as Docker does. `root` needs no entry. Throws SandboxUnsupported for other
 * unknown names.
 */
export function resolveAccount(files: AccountFiles, user: string | number): UserAccount {
  const [name = '', group] = String(user).split(':')
  const users = parseFields(files.passwd)
  const groups = parseFields(files.group)

  const entry = users.find(([first, , id]) => first === name || id === name)
  const uid = parseId(entry?.[2] ?? (name === 'root' ? '0' : name))
  if (uid === undefined) throw new SandboxUnsupported(`The image has no user ${JSON.stringify(name)}.`)
  const gid = group ? requireGroup(groups, group) : (parseId(entry?.[3] ?? '') ?? 0)
  // A user with an explicit group is in no other one.
  const memberships = group
    ? []
    : groups.filter(([, , , members = '']) => entry?.[0] && members.split(',').includes(entry[0]))
  const extra = memberships.flatMap(([, , id = '']) => parseId(id) ?? [])
  return { uid, gid, groups: [...new Set([gid, ...extra])], home: entry?.[5] || '/' }
}

function requireGroup(groups: string[][], name: string): number {
  const gid = parseId(groups.find(([first, , id]) => first === name || id === name)?.[2] ?? name)
  if (gid === undefined) throw new SandboxUnsupported(`The image has no group ${JSON.stringify(name)}.`)
  return gid
}

const parseFields = (text = ''): string[][] => text.split('\n').map((line) => line.split(':'))

const parseId = (text: string): number | undefined =>
  /^\d{1,10}$/.test(text) && Number(text) < ID_MAX ? Number(text) : undefined

/** Capabilities of root in a sandbox: enough for a package manager, and limited to the sandbox's own files. */
export const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID']

/**
 * Capability that only the first process of a sandbox has, so that the kernel refuses to let other processes trace it.
 */
export const FIRST_PROCESS_CAPABILITY = 'SETPCAP'

/** Returns a bounding set as the value of setpriv's `--bounding-set`. */
export const boundingSet = (capabilities: string[]): string =>
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
export const accountEntries = ({ passwd, group }: AccountFiles): { path: string; content: string }[] => [
  { path: 'etc/passwd', content: passwd ?? '' },
  { path: 'etc/group', content: group ?? '' },
]
