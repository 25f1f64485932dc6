import { spawn } from 'node:child_process'
import { type FileHandle, open, readFile, rename, stat } from 'node:fs/promises'
import { type Binaries, program } from './binaries.ts'
import { ensureData } from './data.ts'
import { findShortage } from './disk-space.ts'
import { removeDrafts, type ServerFolder } from './folder.ts'
import { ignoreAbsent } from './ignore-absent.ts'
import { type CommandLine, chooseStrategy, commandLine } from './launch-strategies.ts'
import { findPostmaster, removeMistakenLock } from './postmaster.ts'
import { type PresenceSession, trySession } from './session.ts'
import { serverSettings } from './settings.ts'
import { ensureSocketFolder } from './socket-folder.ts'
import { PostgresUnavailable } from './unavailable.ts'
import { waitUntil } from './wait-until.ts'

/** Includes crash recovery, which takes seconds. */
const READY_MS = 60_000
/** Time for the last processes of a killed server to exit. */
const RETRY_MS = 20_000
const RETRY_POLL_MS = 100
const TRANSIENT = /lock file ".*" already exists|pre-existing shared memory block/
const LOG_BYTES_MAX = 10_000_000
const LOG_LINES_SHOWN = 10
/** Size of two segments of the write-ahead log. */
const RUNNING_MEGABYTES = 32

type ServerOptions = { binaries: Binaries; password: string; durable: boolean }

/** Joins the server that runs on this folder, or starts one. Call under the lock. */
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
      return TRANSIENT.test(reason) ? undefined : 'failed'
    },
    RETRY_POLL_MS,
  )
  if (session !== undefined && session !== 'failed') return session
  throw new PostgresUnavailable(`PostgreSQL did not start in ${folder.path}:\n${reason}`, `See ${folder.log}`)
}

/** Joins a running server, waiting for one that is starting or stopping. Returns undefined if there is none. */
async function joinServer(folder: ServerFolder, password: string): Promise<PresenceSession | undefined> {
  let reason = 'not ready'
  const outcome = await waitUntil(READY_MS, async () => {
    const server = await findPostmaster(folder)
    if (server === undefined) return 'none'
    if (!server.ready) return undefined
    const session = await trySession(server, password)
    if (typeof session !== 'string') return session
    reason = session
  })
  if (outcome === 'none') return undefined
  if (outcome !== undefined) return outcome
  throw new PostgresUnavailable(
    `PostgreSQL runs in ${folder.path} but did not accept a connection for ${READY_MS / 1000} s (${reason}).`,
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
  await removeMistakenLock(folder, socketFolder)
  const args = ['-D', folder.data, ...serverSettings(socketFolder, durable)]
  return commandLine(chosen.strategy, program(chosen.binaries, 'postgres'), args)
}

type StartedServer = { explain(): Promise<string> }

/** Returns when the server has written its lock file, or has exited. */
async function startServer(folder: ServerFolder, { file, args, options }: CommandLine): Promise<StartedServer> {
  await using log = await openLog(folder)
  const from = (await log.stat()).size
  // In its own process session: it outlives this process and does not receive its Ctrl-C.
  const child = spawn(file, args, { ...options, detached: true, stdio: ['ignore', log.fd, log.fd] })
  let ended = false
  child.once('exit', () => {
    ended = true
  })
  child.once('error', () => {
    ended = true
  })
  child.unref()
  await waitUntil(READY_MS, async () => ended || (await findPostmaster(folder)))
  return { explain: () => explainEnd(folder, from) }
}

async function openLog(folder: ServerFolder): Promise<FileHandle> {
  const size = (await stat(folder.log).catch(ignoreAbsent))?.size ?? 0
  if (size > LOG_BYTES_MAX) await rename(folder.log, `${folder.log}.old`)
  return open(folder.log, 'a', 0o600)
}

async function explainEnd(folder: ServerFolder, from: number): Promise<string> {
  const log = (await readFile(folder.log)).subarray(from).toString()
  const lines = log.trim().split('\n').slice(-LOG_LINES_SHOWN)
  const shortage = await findShortage(folder.path, RUNNING_MEGABYTES)
  return [...lines, shortage ?? ''].join('\n').trim() || 'It exited and wrote nothing to its log.'
}
