import { existsSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { formatBoundingSet, type UserAccount } from '../kernel/accounts.ts'
import type { LocalLauncher } from './machine.ts'

/** Folder for our programs in the sandbox. It is in /dev, which is not part of the sandbox's collected files. */
export const LAUNCHER = '/dev/.assay'

/** Path of a launcher file in the sandbox. */
const toSandboxPath = (path: string): string => join(LAUNCHER, basename(path))

/** Lists the programs and libraries that are mounted into every sandbox. */
export const listLauncherFiles = ({
  loader,
  setpriv,
  sh,
  libraries,
}: LocalLauncher): { source: string; target: string }[] =>
  [loader, setpriv, sh, ...libraries].map((source) => ({ source, target: toSandboxPath(source) }))

/** Folder of the control shell's pipes, for a sandbox that has one. */
export const CONTROL = join(LAUNCHER, 'control')

/** Returns the additional files that a sandbox with a control shell needs. */
export const listControlFiles = ({ setsid }: LocalLauncher, folder: string): { source: string; target: string }[] => [
  { source: setsid, target: toSandboxPath(setsid) },
  { source: folder, target: CONTROL },
]

/** Builds the command line that runs a program with our own loader and libraries instead of those of the image. */
const buildProgramArgs = ({ loader }: LocalLauncher, path: string): string[] => [
  toSandboxPath(loader),
  '--library-path',
  LAUNCHER,
  toSandboxPath(path),
]

/**
 * Returns the command line that switches to the user and removes all other capabilities from the bounding set, so that
 * they cannot be regained. The runtime alone does not do that.
 */
export function buildLauncherArgs(launcher: LocalLauncher, account: UserAccount, capabilities: string[]): string[] {
  return [
    ...buildProgramArgs(launcher, launcher.setpriv),
    ...buildIdentityArgs(account),
    ...['--inh-caps', '-all', '--bounding-set', formatBoundingSet(capabilities), '--'],
  ]
}

/**
 * Returns the setpriv options for an account. setpriv looks up even numeric ids in the sandbox's account files, which the
 * agent may have replaced by pipes. setpriv already runs as root, so for root it gets no ids and reads no file.
 */
function buildIdentityArgs(account: UserAccount): string[] {
  const { uid, gid, groups } = account
  if (uid !== 0 || gid !== 0) return buildNumericIdArgs(account)
  if (groups === undefined) return ['--keep-groups']
  return groups.every((group) => group === 0) ? ['--clear-groups'] : buildNumericIdArgs(account)
}

const buildNumericIdArgs = ({ uid, gid, groups }: UserAccount): string[] => [
  ...['--reuid', String(uid), '--regid', String(gid)],
  ...(groups === undefined ? ['--keep-groups'] : ['--groups', groups.join(',')]),
]

/** Returns the command line of the control shell, which reads its commands from a pipe as if it were a script. */
export const buildControlShellArgs = (launcher: LocalLauncher): string[] => [
  ...buildProgramArgs(launcher, launcher.sh),
  join(CONTROL, 'requests'),
]

/**
 * Returns the prefix of a command that the control shell starts. The command gets its own session, so that all of its
 * processes can be killed.
 */
export const buildCommandArgs = (launcher: LocalLauncher, account: UserAccount): string[] => [
  ...buildProgramArgs(launcher, launcher.setsid),
  ...buildProgramArgs(launcher, launcher.setpriv),
  ...buildIdentityArgs(account),
  ...['--inh-caps', '-all', '--'],
]

/** File descriptor to which the first process writes when the runtime has finished the setup and started it. */
export const STARTED_FD = 6

/**
 * Returns the command line of the sandbox's first process: a shell that runs the command as its child, reaps orphans
 * and passes the exit code on. Only this process has CAP_SETPCAP, so the kernel refuses ptrace, pidfd_getfd,
 * process_vm_writev and /proc/1/mem to all others, and the exit code cannot be forged. The trap keeps a SIGINT that the
 * command sends to it from becoming the exit code; other signals do not reach a first process. `output` is the file
 * that the command's output goes to; null if that is already this process's output.
 */
export function buildInitArgs(launcher: LocalLauncher, startedFd: number, output: string | null): string[] {
  const closed = `${startedFd}>&-`
  const run = output === null ? `exec 5>&2 2> /dev/null; "$@" 2>&5 5>&- ${closed}` : `"$@" > ${output} 2>&1 ${closed}`
  return [
    ...buildProgramArgs(launcher, launcher.sh),
    '-c',
    `trap : INT; echo started >&${startedFd}; ${run}; exit $?`,
    'init',
  ]
}

/** The folder of this program, with the reference solutions of its samples. */
const INSTALLATION = toPackageFolder(import.meta.dirname)

function toPackageFolder(folder: string): string {
  const parent = dirname(folder)
  return existsSync(join(folder, 'package.json')) || parent === folder ? folder : toPackageFolder(parent)
}

/** Lists the folders that a sandbox must not see, although they are below a folder that is mounted into it. */
export const listHidden = (binds: readonly string[]): string[] =>
  binds.some((path) => INSTALLATION.startsWith(`${path}/`)) ? [INSTALLATION] : []
