import { SandboxUnsupported } from '../sandbox.ts'

/** A user of a sandbox. Undefined `groups` means those of this process, which an ordinary user cannot change. */
export type UserAccount = { uid: number; gid: number; groups: number[] | undefined; home: string }

/** User that the launcher switches to, instead of the runtime. Undefined for root, whose groups the engine knows. */
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
  const users = linesOf(files.passwd)
  const groups = linesOf(files.group)

  const entry = users.find(([first, , id]) => first === name || id === name)
  const uid = numberOf(entry?.[2] ?? (name === 'root' ? '0' : name))
  if (uid === undefined) throw new SandboxUnsupported(`The image has no user ${JSON.stringify(name)}.`)
  const gid = group ? findGroup(groups, group) : (numberOf(entry?.[3] ?? '') ?? 0)
  const memberOf = group
    ? []
    : groups.filter(([, , , members = '']) => entry?.[0] && members.split(',').includes(entry[0]))
  const extra = memberOf.flatMap(([, , id = '']) => numberOf(id) ?? [])
  return { uid, gid, groups: [...new Set([gid, ...extra])], home: entry?.[5] || '/' }
}

function findGroup(groups: string[][], name: string): number {
  const gid = numberOf(groups.find(([first, , id]) => first === name || id === name)?.[2] ?? name)
  if (gid === undefined) throw new SandboxUnsupported(`The image has no group ${JSON.stringify(name)}.`)
  return gid
}

const linesOf = (text = ''): string[][] => text.split('\n').map((line) => line.split(':'))

const numberOf = (text: string): number | undefined =>
  /^\d{1,10}$/.test(text) && Number(text) < ID_MAX ? Number(text) : undefined

/** Capabilities of root in a sandbox: enough for a package manager, and nothing beyond the sandbox's own files. */
export const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID']

/**
 * Capability that only the first process of a sandbox has, so that the kernel refuses to let other processes trace it.
 */
export const FIRST_PROCESS_CAPABILITY = 'SETPCAP'

/** Returns the bounding set of all processes except the first, as an option of setpriv. */
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
export async function listUnsafePaths(look: (path: string) => Promise<FileKind | undefined>): Promise<string[]> {
  const folder = await look('/etc')
  if (folder === undefined) return []
  if (!folder.isFolder) return ['/etc']
  const unsafe: string[] = []
  for (const path of OPENED_FILES) {
    const found = await look(path)
    if (found && !(found.isFile && found.bytes <= ACCOUNT_FILE_MAX_BYTES)) unsafe.push(path)
  }
  return unsafe
}

/** Returns the replacement account files: paths in an archive with their contents. */
export const accountEntries = ({ passwd, group }: AccountFiles): { path: string; content: string }[] => [
  { path: 'etc/passwd', content: passwd ?? '' },
  { path: 'etc/group', content: group ?? '' },
]
