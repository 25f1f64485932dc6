import { isWithin } from '../harbor/paths.ts'
import { HARNESS_FOLDER } from '../harnesses/harness.ts'
import type { BaseFilesystem, FileChange, StoppedSandbox } from '../sandboxes/sandbox.ts'
import type { VerifyMode } from './record.ts'

/** Returns the base filesystem of an agent: the image, or everything that the agent of the previous step left. */
export const toAgentBase = (from: StoppedSandbox | undefined): BaseFilesystem =>
  from ? { kind: 'snapshot', from, without: VERIFIER_PATHS } : { kind: 'image' }

/** Returns all files of a stopped sandbox as a base filesystem. */
export const toWholeBase = (from: StoppedSandbox | undefined): BaseFilesystem =>
  from ? { kind: 'snapshot', from, without: [] } : { kind: 'image' }

/** The agent's sandbox, and the paths of it that a verifier takes over. `carried`: as in `TrialRequest`. */
type SubmissionSource = { from: StoppedSandbox | undefined; workdir: string; carried: readonly string[] }

/**
 * Returns the base filesystem of a mode, followed by fallbacks with fewer files of the agent in case it cannot be
 * used.
 */
export function listVerifierBases(mode: VerifyMode, source: SubmissionSource): BaseFilesystem[] {
  const first = toVerifierBase(mode, source)
  if (first.kind === 'image') return [first]
  const workdirOnly = toVerifierBase('workspace', { ...source, carried: [] })
  const hasFilesOutside = mode === 'snapshot' || mode === 'shared-cold'
  const canNarrow = hasFilesOutside && workdirOnly.kind === 'workspace'
  return [first, ...(canNarrow ? [workdirOnly] : []), { kind: 'image' }]
}

function toVerifierBase(mode: VerifyMode, { from, workdir, carried }: SubmissionSource): BaseFilesystem {
  if (!from) return { kind: 'image' }
  if (mode === 'shared-cold' || mode === 'shared-live') return { kind: 'snapshot', from, without: VERIFIER_PATHS }
  const outside = carried.filter((path) => workdir === '/' || !isWithin(path, workdir))
  // A system folder contains programs and settings, so only the paths of the reference solution are carried.
  const paths = isSystemFolder(workdir) ? [...carried] : [workdir, ...(mode === 'snapshot' ? outside : [])]
  return paths.length === 0 ? { kind: 'image' } : { kind: 'workspace', from, paths }
}

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
  ...['/etc/gitconfig', '/etc/npmrc', '/usr/etc'],
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
]

/** Settings and user programs in the home directory of root. */
const ROOT_HOME_PATHS = [
  ...['/root/.gitconfig', '/root/.config', '/root/.local', '/root/.npmrc', '/root/.ssh'],
  ...['/root/.bashrc', '/root/.profile', '/root/.bash_profile', '/root/.bash_login', '/root/.zshenv'],
]

/** Files that the sandbox itself creates. */
const SANDBOX_PATHS = [
  ...['/dev', '/proc', '/sys', '/.dockerenv'],
  ...['/etc/hosts', '/etc/hostname', '/etc/resolv.conf', '/etc/mtab'],
]

const SYSTEM_PATHS = [...VERIFIER_PATHS, ...ACCOUNT_PATHS, ...PROGRAM_PATHS, ...SANDBOX_PATHS]
const NEVER_CARRIED = [...SYSTEM_PATHS, ...ROOT_HOME_PATHS]

/** Folders in which the system and installed packages keep their files. */
const SYSTEM_FOLDERS = [...SYSTEM_PATHS, '/usr', '/etc', '/var', '/opt', '/boot', '/run']

/**
 * Returns true for a folder that is, contains or lies in a folder from which programs read code or settings by themselves.
 * If it is the working directory, only the paths that the reference solution changes are carried.
 */
export const isSystemFolder = (folder: string): boolean =>
  SYSTEM_FOLDERS.some((path) => isWithin(path, folder)) || SYSTEM_PATHS.some((path) => isWithin(folder, path))

/** Files that shells and login programs read by themselves in a home directory. */
const STARTUP_FILE =
  /\/(?:\.(?:profile|bash_profile|bash_login|bash_logout|bashrc|bash_aliases|zshenv|zprofile|zshrc|zlogin|zlogout|kshrc|mkshrc|cshrc|tcshrc|login|inputrc|pam_environment)|\.config\/fish\/.*|\.ssh\/(?:rc|environment|config))$/

export const isStartupFile = (path: string): boolean => STARTUP_FILE.test(path)

/** A solution that changes more paths than this is verified in a mode that carries everything. */
const CARRIED_MAX = 500
/** Limit of the paths held while the changes are read. */
const CANDIDATES_MAX = 20_000

/**
 * Returns the paths that the reference solution changed outside the working directory, or everywhere if that is a system
 * folder. A folder that the image does not have stands for everything below it. Returns undefined if there are too many.
 */
export async function listCarriedPaths(
  changes: AsyncIterable<FileChange>,
  workdir: string,
): Promise<string[] | undefined> {
  const excluded = isSystemFolder(workdir) ? NEVER_CARRIED : [...NEVER_CARRIED, workdir]
  const found = new Map<string, FileChange['kind']>()
  for await (const { path, kind, isUnreadable } of changes) {
    const isExcluded = excluded.some((other) => isWithin(path, other) || isWithin(other, path))
    if (isUnreadable || isExcluded) continue
    if (hasFolderAbove(found, path)) continue
    if (found.size >= CANDIDATES_MAX) return undefined
    found.set(path, kind)
  }
  const paths = [...found.keys()].filter((path) => !hasFolderAbove(found, path)).sort()
  return paths.length > CARRIED_MAX ? undefined : paths
}

/** Lists the changed startup files in some folders, at most `CARRIED_MAX`. */
export async function listStartupFilesIn(
  changes: AsyncIterable<FileChange>,
  folders: readonly string[],
): Promise<string[]> {
  const found = new Set<string>()
  for await (const { path, kind } of changes) {
    const isListed = kind === 'file' && isStartupFile(path) && folders.some((folder) => isWithin(path, folder))
    if (isListed && found.size < CARRIED_MAX) found.add(path)
  }
  return [...found].sort()
}

function hasFolderAbove(found: ReadonlyMap<string, FileChange['kind']>, path: string): boolean {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
    if (found.get(path.slice(0, end)) === 'folder') return true
  }
  return false
}
