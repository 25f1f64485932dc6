import { execFile } from 'node:child_process'
import { type Binaries, copyBinaries, linkBinaries, program } from './binaries.ts'
import type { Folder } from './folder.ts'
import { type Account, findUnprivileged, give, isNamed, ownAccount } from './ownership.ts'
import { PostgresUnavailable } from './unavailable.ts'

/** PostgreSQL refuses to run as root. A way is how its programs are run all the same. */
export type Way = {
  name: string
  /** Who the files of the server belong to, seen from here. */
  owner: Account
  /** Put before the program. */
  prefix: readonly string[]
  /** Node itself changes to the owner before it runs the program. */
  changesUser?: true
  /** The programs are copied into the folder, because the owner cannot reach the package. */
  copiesBinaries?: true
}

export type Chosen = { way: Way; binaries: Binaries }

/** initdb on a slow disk. */
const RUN_MS = 60_000

export async function chooseWay(folder: Folder, provided: Binaries): Promise<Chosen> {
  const failures: string[] = []
  for (const way of await listWays()) {
    const chosen = await tryWay(way, folder, provided)
    if (typeof chosen !== 'string') return chosen
    failures.push(`- ${way.name}: ${chosen}`)
  }
  throw new PostgresUnavailable(
    `PostgreSQL cannot run here as user ${ownAccount().uid} on the folder ${folder.path}. These ways were tried:\n${failures.join('\n') || '- none, because /etc/passwd names neither postgres nor nobody'}`,
    'Start Assay as an ordinary user that /etc/passwd names',
  )
}

/** In order of preference. */
async function listWays(): Promise<Way[]> {
  const self = ownAccount()
  if (self.uid !== 0 && isNamed(self)) return [{ name: 'directly', owner: self, prefix: [] }]

  const other = await findUnprivileged()
  if (other === undefined) return []

  const namespace = { name: 'user namespace', owner: self, prefix: namespacePrefix(other) }
  if (self.uid !== 0) return [namespace]
  return [
    namespace,
    { name: 'setpriv', owner: other, prefix: setprivPrefix(other) },
    { name: `user id ${other.uid}`, owner: other, prefix: [], changesUser: true },
    {
      name: `user id ${other.uid}, copied programs`,
      owner: other,
      prefix: [],
      changesUser: true,
      copiesBinaries: true,
    },
  ]
}

/** Inside it root is called by another name, so the data stays with root. */
const namespacePrefix = (other: Account): string[] => [
  'unshare',
  '-U',
  `--map-user=${other.uid}`,
  `--map-group=${other.gid}`,
]

/**
 * Keeps the right to pass folders closed to the user, such as /root. Without no_setuid_fixup the kernel
 * hides that right from access(2), with which PostgreSQL looks for its own programs.
 */
const setprivPrefix = (other: Account): string[] => [
  'setpriv',
  `--reuid=${other.uid}`,
  `--regid=${other.gid}`,
  '--clear-groups',
  '--inh-caps=+dac_override',
  '--ambient-caps=+dac_override',
  '--securebits=+no_setuid_fixup',
]

async function tryWay(way: Way, folder: Folder, provided: Binaries): Promise<Chosen | string> {
  await give(folder.path, way.owner)
  if (way.prefix.length > 0 || way.changesUser) {
    const reach = await run(way, '/bin/sh', ['-c', 'cd "$1"', 'sh', folder.path])
    if (reach.failed) return reach.output
  }
  const linked = (await linkBinaries(provided)) === 'linked'
  const binaries = linked && !way.copiesBinaries ? provided : await copyBinaries(provided, folder, way.owner)
  const answer = await run(way, program(binaries, 'postgres'), ['--version'])
  return answer.failed ? `${answer.output} (PostgreSQL needs glibc 2.27 or later)` : { way, binaries }
}

export type CommandLine = {
  file: string
  args: string[]
  options: { cwd: string; env?: Record<string, string> } & Partial<Account>
}

/** The environment may hold secrets, and others of the same user could read it from a running server. */
export function commandLine(way: Way, file: string, args: readonly string[]): CommandLine {
  const options = { cwd: '/', ...(way.changesUser ? way.owner : {}) }
  const [wrapper, ...rest] = way.prefix
  if (wrapper === undefined) return { file, args: [...args], options: { ...options, env: { LC_ALL: 'C' } } }
  return { file: wrapper, args: [...rest, 'env', '-i', 'LC_ALL=C', file, ...args], options }
}

export async function run(
  way: Way,
  file: string,
  args: readonly string[],
): Promise<{ failed: boolean; output: string }> {
  const command = commandLine(way, file, args)
  return new Promise((resolve) => {
    execFile(command.file, command.args, { ...command.options, timeout: RUN_MS }, (error, stdout, stderr) => {
      resolve({ failed: error !== null, output: stderr.trim() || stdout.trim() || (error?.message ?? '') })
    })
  })
}
