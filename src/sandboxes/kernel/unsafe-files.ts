import { ACCOUNT_FILE_MAX_BYTES, type AccountFiles } from './accounts.ts'

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
