import { spawn } from 'node:child_process'
import { type FileHandle, lstat, open, readFile, rename, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { syncFolder } from '../data-folder.ts'
import { ignoreCode } from '../errors.ts'
import { type Binaries, toProgramPath } from './binaries.ts'
import {
  changeOwner,
  changeTreeOwner,
  createDraft,
  ensureSocketFolder,
  removeDrafts,
  type ServerFolder,
  writeSecret,
} from './folder.ts'
import {
  buildCommandLine,
  type ChosenLaunch,
  type CommandLine,
  chooseStrategy,
  runCommand,
} from './launch-strategies.ts'
import { findPostmaster, isMemoryHeld, removeStaleLock, waitUntil } from './postmaster.ts'
import { type PresenceSession, trySession } from './session.ts'
import { PostgresUnavailable } from './unavailable.ts'

/** Timeout of a start, including crash recovery, which takes seconds. */
const READY_TIMEOUT_MS = 60_000
/** Maximum time for which a start is retried while the last processes of a killed server exit. */
const RETRY_MS = 20_000
const RETRY_POLL_MS = 100
/** Errors in the log of a server that starts while processes of a killed one still run. */
const TRANSIENT_ERROR = /lock file ".*" already exists|pre-existing shared memory block/
const LOG_BYTES_MAX = 10_000_000
const LOG_LINES_SHOWN = 10
/** Free disk space that a start needs: two segments of the write-ahead log. */
const FREE_MEGABYTES_MIN = 32

type ServerOptions = { binaries: Binaries; password: string; durable: boolean }

/** Joins the server that runs on this folder, or starts one. Call while holding `lockFolder`. */
export async function ensureServer(folder: ServerFolder, options: ServerOptions): Promise<PresenceSession> {
  const running = await joinServer(folder, options.password)
  if (running) return running

  const command = await prepareServer(folder, options)
  let reason = ''
  const session = await waitUntil(
    RETRY_MS,
    async () => {
      const started = await startServer(folder, command)
      const joined = await joinServer(folder, options.password)
      if (joined) return joined
      reason = await started.explain()
      return TRANSIENT_ERROR.test(reason) ? undefined : 'failed'
    },
    RETRY_POLL_MS,
  )
  if (session !== undefined && session !== 'failed') return session
  throw new PostgresUnavailable(`PostgreSQL did not start in ${folder.path}:\n${reason}`, `See ${folder.log}`)
}

/** Joins a running server, waiting for one that is starting or stopping. Returns undefined if there is none. */
async function joinServer(folder: ServerFolder, password: string): Promise<PresenceSession | undefined> {
  let reason = 'not ready'
  const outcome = await waitUntil(READY_TIMEOUT_MS, async () => {
    const server = await findPostmaster(folder)
    if (server === undefined) return 'none'
    if (!server.ready) return undefined
    const sessionOrReason = await trySession(server, password)
    if (typeof sessionOrReason !== 'string') return sessionOrReason
    reason = sessionOrReason
  })
  if (outcome === 'none') return undefined
  if (outcome !== undefined) return outcome
  throw new PostgresUnavailable(
    `PostgreSQL runs in ${folder.path} but did not accept a connection for ${READY_TIMEOUT_MS / 1000} s (${reason}).`,
    `See ${folder.log}`,
  )
}

async function prepareServer(
  folder: ServerFolder,
  { binaries, password, durable }: ServerOptions,
): Promise<CommandLine> {
  await removeDrafts(folder)
  const chosen = await chooseStrategy(folder, binaries)
  await ensureData(folder, chosen, { password, durable })
  const socketFolder = await ensureSocketFolder(folder, chosen.strategy.owner)
  await removeStaleLock(folder, socketFolder)
  const args = ['-D', folder.data, ...buildServerSettings(socketFolder, durable)]
  return buildCommandLine(chosen.strategy, toProgramPath(chosen.binaries, 'postgres'), args)
}

type StartedServer = { explain(): Promise<string> }

/** Returns when the server has written postmaster.pid, or has exited. */
async function startServer(folder: ServerFolder, { file, args, options }: CommandLine): Promise<StartedServer> {
  await using log = await openLog(folder)
  const logOffset = (await log.stat()).size
  // In its own process session: it outlives this process and does not receive its Ctrl-C.
  const child = spawn(file, args, { ...options, detached: true, stdio: ['ignore', log.fd, log.fd] })
  let hasEnded = false
  child.once('exit', () => {
    hasEnded = true
  })
  child.once('error', () => {
    hasEnded = true
  })
  child.unref()
  await waitUntil(READY_TIMEOUT_MS, async () => (hasEnded ? 'ended' : await findPostmaster(folder)))
  return { explain: () => explainEnd(folder, logOffset) }
}

async function openLog(folder: ServerFolder): Promise<FileHandle> {
  const size = (await stat(folder.log).catch(ignoreCode('ENOENT')))?.size ?? 0
  if (size > LOG_BYTES_MAX) await rename(folder.log, `${folder.log}.old`)
  return open(folder.log, 'a', 0o600)
}

async function explainEnd(folder: ServerFolder, logOffset: number): Promise<string> {
  const log = (await readFile(folder.log)).subarray(logOffset).toString()
  const lines = log.trim().split('\n').slice(-LOG_LINES_SHOWN)
  const shortage = await findShortage(folder.path, FREE_MEGABYTES_MIN)
  return [...lines, shortage ?? ''].join('\n').trim() || 'It exited and wrote nothing to its log.'
}

/** Builds the settings for the command line, so that a new version of Assay also changes existing folders. */
function buildServerSettings(socketFolder: string, durable: boolean): string[] {
  const settings = {
    ...SMALL_SERVER,
    ...QUIET_LOG,
    ...buildLocalSettings(socketFolder),
    ...(durable ? {} : VOLATILE_DATA),
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

const buildLocalSettings = (socketFolder: string) => ({
  listen_addresses: '',
  port: 5432,
  // Quoted, because the setting is a list and a path may contain a comma.
  unix_socket_directories: `"${socketFolder.replaceAll('"', '""')}"`,
  unix_socket_permissions: '0700',
  timezone: 'UTC',
})

/** Settings for one service on one machine: few processes, little memory, no replicas. */
const SMALL_SERVER = {
  max_connections: 100,
  shared_buffers: '64MB',
  io_method: 'sync',
  jit: 'off',
  autovacuum_max_workers: 2,
  autovacuum_worker_slots: 2,
  // Parallel queries need shared memory, of which containers have little.
  max_parallel_workers_per_gather: 0,
  max_parallel_maintenance_workers: 0,
  max_logical_replication_workers: 0,
  // In the data folder: leftovers of another user's killed server in /dev/shm could not be reused.
  dynamic_shared_memory_type: 'mmap',
  wal_level: 'minimal',
  max_wal_senders: 0,
  min_wal_size: '32MB',
  max_wal_size: '256MB',
}

/** Keeps statements and details, which may contain secrets, out of the log. */
const QUIET_LOG = {
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
}

/** Settings for tests: a power cut may destroy the data. */
const VOLATILE_DATA = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }

/** Maximum wait for processes of a dead server that still use its data. */
const ORPHANS_TIMEOUT_MS = 20_000
/** Free disk space that new data needs. */
const NEW_DATA_MEGABYTES_MIN = 64

type DataOptions = { password: string; durable: boolean }

/** Creates the data, or checks its version and owner. Call while holding `lockFolder` and without a running server. */
async function ensureData(folder: ServerFolder, chosen: ChosenLaunch, options: DataOptions): Promise<void> {
  const version = await readFile(join(folder.data, 'PG_VERSION'), 'utf8').catch(ignoreCode('ENOENT'))
  if (version === undefined) return createData(folder, chosen, options)

  refuseOtherVersion(folder, version.trim(), chosen.binaries.version)
  await transferData(folder, chosen)
}

function refuseOtherVersion(folder: ServerFolder, found: string, provided: string): void {
  const major = provided.split('.')[0]
  if (found === major) return
  throw new PostgresUnavailable(
    `The data in ${folder.data} was created by PostgreSQL ${found}; this Assay includes PostgreSQL ${major}, which cannot read it.`,
    'Export it with the version of Assay that created it',
    'choose another folder',
  )
}

/**
 * Changes the owner of data that was created with another strategy. PostgreSQL cannot see processes of another account
 * that still write to the data, so this waits for them.
 */
async function transferData(folder: ServerFolder, { strategy }: ChosenLaunch): Promise<void> {
  if ((await lstat(folder.data)).uid === strategy.owner.uid) return
  const isFree = await waitUntil(ORPHANS_TIMEOUT_MS, async () => ((await isMemoryHeld(folder)) ? undefined : true))
  if (isFree) return changeTreeOwner(folder.data, strategy.owner)
  throw new PostgresUnavailable(
    `Processes of a server that died still use the data in ${folder.data}.`,
    'End these `postgres` processes',
  )
}

async function createData(
  folder: ServerFolder,
  { strategy, binaries }: ChosenLaunch,
  { password, durable }: DataOptions,
): Promise<void> {
  const shortage = await findShortage(folder.path, NEW_DATA_MEGABYTES_MIN)
  if (shortage) throw new PostgresUnavailable(shortage, 'Free some space')

  const draft = await createDraft(folder)
  const passwordFile = join(draft, 'password')
  await writeSecret(passwordFile, password)
  await changeOwner(passwordFile, strategy.owner)
  await changeOwner(draft, strategy.owner)

  const data = join(draft, 'data')
  const result = await runCommand(strategy, toProgramPath(binaries, 'initdb'), [
    ...['-D', data, '-U', 'assay', `--pwfile=${passwordFile}`, '-A', 'scram-sha-256'],
    ...['-E', 'UTF8', '--locale=C', '--no-instructions', ...(durable ? [] : ['--no-sync'])],
  ])
  if (result.failed) {
    await rm(draft, { recursive: true })
    throw new PostgresUnavailable(
      `PostgreSQL could not create its data in ${folder.path}:\n${result.output}`,
      'Fix the cause',
    )
  }
  await rename(data, folder.data)
  await syncFolder(folder.path)
  await rm(draft, { recursive: true })
}

/**
 * Returns the error message for a lack of disk space, or undefined if there is enough. A server on a full disk cannot even
 * log it.
 */
async function findShortage(path: string, neededMegabytes: number): Promise<string | undefined> {
  const disk = await statfs(path)
  const freeMegabytes = Math.floor((disk.bavail * disk.bsize) / 1e6)
  if (freeMegabytes >= neededMegabytes) return undefined
  return `The disk is full: PostgreSQL needs ${neededMegabytes} MB in ${path} and ${freeMegabytes} MB are free.`
}
