import { HARNESS_FOLDER } from '../harnesses/harness.ts'
import type { FileChange } from '../sandboxes/sandbox.ts'

/** Paths that the verifier provides, or that belong to a harness. Nothing below them ever reaches the verifier. */
export const VERIFIER_PATHS = ['/tests', '/logs', '/solution', HARNESS_FOLDER]

/** Account files: users, groups and home directories are always read from the image. */
const ACCOUNT_PATHS = ['passwd', 'group', 'shadow', 'gshadow', 'subuid', 'subgid', 'nsswitch.conf']
  .flatMap((name) => [`/etc/${name}`, `/etc/${name}-`])
  .concat('/etc/pam.d', '/etc/security', '/etc/sudoers', '/etc/sudoers.d')

/** Programs, libraries, and files that shells, interpreters and the dynamic linker read by themselves. */
const PROGRAM_PATHS = [
  ...['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/usr/bin', '/usr/sbin', '/usr/lib', '/usr/lib32', '/usr/lib64'],
  ...['/usr/libexec', '/usr/local/bin', '/usr/local/sbin', '/usr/local/lib', '/usr/local/lib64', '/usr/local/libexec'],
  ...['/usr/share/perl', '/usr/share/perl5', '/usr/share/python3', '/usr/share/nodejs', '/usr/local/share/perl'],
  ...['/etc/perl', '/etc/alternatives', '/usr/pyvenv.cfg', '/usr/local/pyvenv.cfg', '/etc/ssl/openssl.cnf'],
  ...['/etc/gitconfig', '/root/.gitconfig', '/root/.config', '/root/.local', '/etc/npmrc', '/usr/etc', '/root/.npmrc'],
  ...['/etc/ld.so.preload', '/etc/ld.so.conf', '/etc/ld.so.conf.d', '/etc/ld.so.cache'],
  ...[
    '/etc/profile',
    '/etc/profile.d',
    '/etc/bash.bashrc',
    '/etc/bashrc',
    '/etc/environment',
    '/etc/zsh',
    '/etc/inputrc',
  ],
  ...['/root/.bashrc', '/root/.profile', '/root/.bash_profile', '/root/.bash_login', '/root/.zshenv'],
]

/** Files that the sandbox itself makes. */
const SANDBOX_PATHS = [
  ...['/dev', '/proc', '/sys', '/.dockerenv'],
  ...['/etc/hosts', '/etc/hostname', '/etc/resolv.conf', '/etc/mtab'],
]

const NEVER_CARRIED = [...VERIFIER_PATHS, ...ACCOUNT_PATHS, ...PROGRAM_PATHS, ...SANDBOX_PATHS]

/** A solution that changes more paths than this is verified in a mode that carries everything. */
const CARRIED_MAX = 500
/** Limit of the paths held while the changes are read. */
const CANDIDATES_MAX = 20_000

/**
 * Returns the paths outside the working directory that the reference solution changed, as few as describe them: a folder
 * that the image does not have stands for everything below it. Undefined: there are too many.
 */
export async function carriedPaths(changes: AsyncIterable<FileChange>, workdir: string): Promise<string[] | undefined> {
  const never = workdir === '/' ? NEVER_CARRIED : [...NEVER_CARRIED, workdir]
  const found = new Map<string, FileChange['kind']>()
  for await (const { path, kind, isUnreadable } of changes) {
    if (isUnreadable || never.some((other) => isWithin(path, other) || isWithin(other, path))) continue
    if (hasFolderAbove(found, path)) continue
    if (found.size >= CANDIDATES_MAX) return undefined
    found.set(path, kind)
  }
  const paths = [...found.keys()].filter((path) => !hasFolderAbove(found, path)).sort()
  return paths.length > CARRIED_MAX ? undefined : paths
}

/** Whether a path is a folder or lies below it. */
export const isWithin = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`)

function hasFolderAbove(found: ReadonlyMap<string, FileChange['kind']>, path: string): boolean {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
    if (found.get(path.slice(0, end)) === 'folder') return true
  }
  return false
}
