import { basename, join } from 'node:path'
import type { Account } from '../kernel/accounts.ts'
import { boundingSet } from '../kernel/agent-rights.ts'
import type { Launcher } from './machine.ts'

/** In the sandbox's /dev, which is made anew for each, so that nothing of it stays in its files. */
export const LAUNCHER = '/dev/.assay'

const inside = (path: string): string => join(LAUNCHER, basename(path))

export const launcherFiles = ({ loader, setpriv, sh, libraries }: Launcher): { source: string; target: string }[] =>
  [loader, setpriv, sh, ...libraries].map((source) => ({ source, target: inside(source) }))

/** Where the pipes of the control shell are, for a sandbox that has one. */
export const CONTROL = join(LAUNCHER, 'control')

/** What it needs on top. */
export const controlFiles = ({ setsid }: Launcher, folder: string): { source: string; target: string }[] => [
  { source: setsid, target: inside(setsid) },
  { source: folder, target: CONTROL },
]

const program = ({ loader }: Launcher, path: string): string[] => [
  inside(loader),
  '--library-path',
  LAUNCHER,
  inside(path),
]

/** What goes before a command: it becomes the user, and gives up for good what the runtime only lays down. */
export function launcherWords(launcher: Launcher, account: Account, capabilities: string[]): string[] {
  return [
    ...program(launcher, launcher.setpriv),
    ...identityWords(account),
    ...['--inh-caps', '-all', '--bounding-set', boundingSet(capabilities), '--'],
  ]
}

/** setpriv looks even numbers up in the sandbox's account files, so for root, which it already is, it is given none. */
function identityWords(account: Account): string[] {
  const { uid, gid, groups } = account
  const isRoot = uid === 0 && gid === 0 && groups?.every((group) => group === 0)
  return isRoot ? ['--clear-groups'] : numberWords(account)
}

const numberWords = ({ uid, gid, groups }: Account): string[] => [
  ...['--reuid', String(uid), '--regid', String(gid)],
  ...(groups === undefined ? ['--keep-groups'] : ['--groups', groups.join(',')]),
]

/** Reads what it is to do from a pipe, as a shell reads a script. */
export const controlWords = (launcher: Launcher): string[] => [
  ...program(launcher, launcher.sh),
  join(CONTROL, 'requests'),
]

/** For a command that the control shell starts: a process group of its own, so that all of it can be ended. */
export const commandWords = (launcher: Launcher, account: Account): string[] => [
  ...program(launcher, launcher.setsid),
  ...program(launcher, launcher.setpriv),
  ...identityWords(account),
  ...['--inh-caps', '-all', '--'],
]

/** Descriptor on which the first process reports that the runtime has set everything up and handed over to it. */
export const STARTED_FD = 6

/**
 * Returns the command line of the sandbox's first process: a shell that runs the command as its child, reaps orphans and
 * passes the exit code on. It keeps CAP_SETPCAP, which nothing else in the sandbox has or can get: the kernel then refuses
 * ptrace, pidfd_getfd, process_vm_writev and /proc/1/mem to everybody else, so nobody but the kernel reports the exit.
 * The trap keeps a SIGINT that the command sends to it from becoming the exit code; other signals do not reach a first process.
 * `output` is the file that the command's output goes to; null if that is already this process's output.
 */
export function initWords(launcher: Launcher, startedFd: number, output: string | null): string[] {
  const closed = `${startedFd}>&-`
  const run = output === null ? `exec 5>&2 2> /dev/null; "$@" 2>&5 5>&- ${closed}` : `"$@" > ${output} 2>&1 ${closed}`
  return [...program(launcher, launcher.sh), '-c', `trap : INT; echo started >&${startedFd}; ${run}; exit $?`, 'init']
}
