import { basename, join } from 'node:path'
import type { Account } from './account.ts'
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
  const bounding = ['-all', ...capabilities.map((name) => `+${name.toLowerCase()}`)].join(',')
  return [
    ...program(launcher, launcher.setpriv),
    ...identityWords(account),
    ...['--inh-caps', '-all', '--bounding-set', bounding, '--'],
  ]
}

const identityWords = ({ uid, gid, groups }: Account): string[] => [
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

/**
 * A first process for a runtime that brings none: signals reach a command only when it is not the first, and somebody has
 * to bury the orphans. It opens the pipe itself, so that output and errors go the same way.
 */
export function initWords(launcher: Launcher, output: string): string[] {
  return [...program(launcher, launcher.sh), '-c', `"$@" > ${output} 2>&1; exit $?`, 'init']
}
