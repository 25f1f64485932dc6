import { execFile } from 'node:child_process'
import { type Binaries, copyBinaries, linkBinaries, toProgramPath } from './binaries.ts'
import { changeOwner, findUnprivileged, hasAccount, type OsAccount, ownAccount, type ServerFolder } from './folder.ts'
import { PostgresUnavailable } from './unavailable.ts'

/** A way to run the programs of PostgreSQL, which refuse to run as root. */
type LaunchStrategy = {
  name: string
  /** Owner of the server's files, as seen by this process. */
  owner: OsAccount
  /** Command prefix before the program. */
  prefix: readonly string[]
  /** Node switches to the owner before it executes the program. */
  changesUser?: true
  /** The programs are copied into the folder, because the owner cannot access the package. */
  copiesBinaries?: true
}

export type ChosenLaunch = { strategy: LaunchStrategy; binaries: Binaries }

/** Timeout of a command. An emulated machine takes minutes for initdb. */
const RUN_TIMEOUT_MS = 300_000

/**
 * Returns the first strategy with which PostgreSQL runs. Throws `PostgresUnavailable` with the reason of each that
 * fails.
 */
export async function chooseStrategy(folder: ServerFolder, provided: Binaries): Promise<ChosenLaunch> {
  const failures: string[] = []
  for (const strategy of await listStrategies()) {
    const chosen = await tryStrategy(strategy, folder, provided)
    if (typeof chosen !== 'string') return chosen
    failures.push(`- ${strategy.name}: ${chosen}`)
  }
  throw new PostgresUnavailable(
    `PostgreSQL cannot run here as user ${ownAccount().uid} on the folder ${folder.path}. Tried:\n${failures.join('\n') || '- none, because /etc/passwd names neither postgres nor nobody'}`,
    'Start Assay as an ordinary user that /etc/passwd names',
  )
}

/** Lists strategies in order of preference. */
async function listStrategies(): Promise<LaunchStrategy[]> {
  const self = ownAccount()
  if (self.uid !== 0 && hasAccount(self)) return [{ name: 'directly', owner: self, prefix: [] }]

  const unprivileged = await findUnprivileged()
  if (unprivileged === undefined) return []

  const namespace = { name: 'user namespace', owner: self, prefix: namespacePrefix(unprivileged) }
  if (self.uid !== 0) return [namespace]
  return [
    namespace,
    { name: 'setpriv', owner: unprivileged, prefix: setprivPrefix(unprivileged) },
    { name: `user id ${unprivileged.uid}`, owner: unprivileged, prefix: [], changesUser: true },
    {
      name: `user id ${unprivileged.uid}, copied programs`,
      owner: unprivileged,
      prefix: [],
      changesUser: true,
      copiesBinaries: true,
    },
  ]
}

/** Maps root to another user inside the namespace, so that the data stays owned by root. */
const namespacePrefix = (other: OsAccount): string[] => [
  'unshare',
  '-U',
  `--map-user=${other.uid}`,
  `--map-group=${other.gid}`,
]

/**
 * Keeps the capability to traverse folders that are closed to the user, such as /root. Without no_setuid_fixup the
 * kernel hides it from access(2), which PostgreSQL uses to find its own programs.
 */
const setprivPrefix = (other: OsAccount): string[] => [
  'setpriv',
  `--reuid=${other.uid}`,
  `--regid=${other.gid}`,
  '--clear-groups',
  '--inh-caps=+dac_override',
  '--ambient-caps=+dac_override',
  '--securebits=+no_setuid_fixup',
]

async function tryStrategy(
  strategy: LaunchStrategy,
  folder: ServerFolder,
  provided: Binaries,
): Promise<ChosenLaunch | string> {
  await changeOwner(folder.path, strategy.owner)
  if (strategy.prefix.length > 0 || strategy.changesUser) {
    const access = await runCommand(strategy, '/bin/sh', ['-c', 'cd "$1"', 'sh', folder.path])
    if (access.failed) return access.output
  }
  const linked = (await linkBinaries(provided)) === 'linked'
  const binaries = linked && !strategy.copiesBinaries ? provided : await copyBinaries(provided, folder, strategy.owner)
  const version = await runCommand(strategy, toProgramPath(binaries, 'postgres'), ['--version'])
  return version.failed ? `${version.output} (PostgreSQL needs glibc 2.27 or later)` : { strategy, binaries }
}

export type CommandLine = {
  file: string
  args: string[]
  options: { cwd: string; env?: Record<string, string> } & Partial<OsAccount>
}

/** Builds a command line with an empty environment: it may contain secrets, which other processes of the user could read. */
export function buildCommandLine(strategy: LaunchStrategy, file: string, args: readonly string[]): CommandLine {
  const options = { cwd: '/', ...(strategy.changesUser ? strategy.owner : {}) }
  const [wrapper, ...rest] = strategy.prefix
  if (wrapper === undefined) return { file, args: [...args], options: { ...options, env: { LC_ALL: 'C' } } }
  return { file: wrapper, args: [...rest, 'env', '-i', 'LC_ALL=C', file, ...args], options }
}

export async function runCommand(
  strategy: LaunchStrategy,
  file: string,
  args: readonly string[],
): Promise<{ failed: boolean; output: string }> {
  const command = buildCommandLine(strategy, file, args)
  return new Promise((resolve) => {
    execFile(command.file, command.args, { ...command.options, timeout: RUN_TIMEOUT_MS }, (error, stdout, stderr) => {
      const output = stderr.trim() || stdout.trim() || (error?.message ?? '')
      // Only the timeout and output that is too long end the program here.
      const suffix = error?.killed ? `\nIt was ended, after at most ${RUN_TIMEOUT_MS / 1000} seconds.` : ''
      resolve({ failed: error !== null, output: `${output}${suffix}` })
    })
  })
}
