import { basename, join } from 'node:path'
import type { UserAccount } from '../kernel/accounts.ts'
import { boundingSet } from '../kernel/agent-rights.ts'
import type { LocalLauncher } from './machine.ts'

/** Folder in the sandbox's /dev, which is created for each sandbox, so that it does not become part of its files. */
export const LAUNCHER = '/dev/.assay'

const inside = (path: string): string => join(LAUNCHER, basename(path))

export const launcherFiles = ({
  loader,
  setpriv,
  sh,
  libraries,
}: LocalLauncher): { source: string; target: string }[] =>
  [loader, setpriv, sh, ...libraries].map((source) => ({ source, target: inside(source) }))

/** Folder of the control shell's pipes, for a sandbox that has one. */
export const CONTROL = join(LAUNCHER, 'control')

/** Returns the additional files that a sandbox with a control shell needs. */
export const controlFiles = ({ setsid }: LocalLauncher, folder: string): { source: string; target: string }[] => [
  { source: setsid, target: inside(setsid) },
  { source: folder, target: CONTROL },
]

const program = ({ loader }: LocalLauncher, path: string): string[] => [
  inside(loader),
  '--library-path',
  LAUNCHER,
  inside(path),
]

/**
 * Returns the command line that switches to the user and drops for good the capabilities that the runtime only lowers.
 */
export function launcherWords(launcher: LocalLauncher, account: UserAccount, capabilities: string[]): string[] {
  return [
    ...program(launcher, launcher.setpriv),
    ...identityWords(account),
    ...['--inh-caps', '-all', '--bounding-set', boundingSet(capabilities), '--'],
  ]
}

/**
 * setpriv looks even numbers up in the sandbox's account files, which may be pipes by now. For root, which it already is,
 * it is therefore given none, with or without rights to change groups.
 */
function identityWords(account: UserAccount): string[] {
  const { uid, gid, groups } = account
  if (uid !== 0 || gid !== 0) return numberWords(account)
  if (groups === undefined) return ['--keep-groups']
  return groups.every((group) => group === 0) ? ['--clear-groups'] : numberWords(account)
}

const numberWords = ({ uid, gid, groups }: UserAccount): string[] => [
  ...['--reuid', String(uid), '--regid', String(gid)],
  ...(groups === undefined ? ['--keep-groups'] : ['--groups', groups.join(',')]),
]

/** Reads what it is to do from a pipe, as a shell reads a script. */
export const controlWords = (launcher: LocalLauncher): string[] => [
  ...program(launcher, launcher.sh),
  join(CONTROL, 'requests'),
]

/** For a command that the control shell starts: a process group of its own, so that all of it can be ended. */
export const commandWords = (launcher: LocalLauncher, account: UserAccount): string[] => [
  ...program(launcher, launcher.setsid),
  ...program(launcher, launcher.setpriv),
  ...identityWords(account),
  ...['--inh-caps', '-all', '--'],
]

/** Descriptor on which the first process reports that the runtime has set everything up and handed over to it. */
export const STARTED_FD = 6

/**
 * Returns the command line of the sandbox's first process: a shell that runs the command as its child, reaps orphans
 * and passes the exit code on. Only this process has CAP_SETPCAP, so the kernel refuses ptrace, pidfd_getfd,
 * process_vm_writev and /proc/1/mem to all others, and the exit code cannot be forged. The trap keeps a SIGINT that the
 * command sends to it from becoming the exit code; other signals do not reach a first process. `output` is the file
 * that the command's output goes to; null if that is already this process's output.
 */
export function initWords(launcher: LocalLauncher, startedFd: number, output: string | null): string[] {
  const closed = `${startedFd}>&-`
  const run = output === null ? `exec 5>&2 2> /dev/null; "$@" 2>&5 5>&- ${closed}` : `"$@" > ${output} 2>&1 ${closed}`
  return [...program(launcher, launcher.sh), '-c', `trap : INT; echo started >&${startedFd}; ${run}; exit $?`, 'init']
}
