import { runOnce } from '../concurrency.ts'
import { lockFile } from '../file-lock.ts'
import { type Binaries, requireBinaries } from './binaries.ts'
import { ensurePassword, openFolder, removeSocketFolder, type ServerFolder } from './folder.ts'
import { findPostmaster, shutDown } from './postmaster.ts'
import { ensureServer } from './server.ts'
import { isOnlyProcess, type PostgresConnection, type PresenceSession, trySession } from './session.ts'
import { PostgresUnavailable, toUnavailable } from './unavailable.ts'

export { type PostgresConnection, PostgresUnavailable }

export type EmbeddedPostgres = {
  connection: PostgresConnection
  /** Resolves when the server has ended, for any reason. Starting it again gives the same connection. */
  lost: Promise<void>
  /** Shuts the server down unless others are connected to it. Close your own connections first. */
  stop(): Promise<void>
}

/**
 * Starts the embedded server of a folder, or joins it if it is running: all processes on the same folder share one server,
 * which outlives a killed process. `durable: false` is for tests: faster, but a power cut may lose all data.
 */
export async function startPostgres(options: { folder: string; durable?: boolean }): Promise<EmbeddedPostgres> {
  try {
    const binaries = await requireBinaries()
    const folder = await openFolder(options.folder)
    const session = await start(folder, binaries, options.durable ?? true)
    return {
      connection: session.connection,
      lost: session.lost,
      stop: runOnce(() => leave(folder, session)),
    }
  } catch (error) {
    throw toUnavailable(error, options.folder)
  }
}

async function start(folder: ServerFolder, binaries: Binaries, durable: boolean): Promise<PresenceSession> {
  await using _lock = await lockFolder(folder)
  const password = await ensurePassword(folder)
  // Awaited here, because the lock is released when this function returns.
  return await ensureServer(folder, { binaries, password, durable })
}

/** Stops the server if no other process uses it. Holds the lock, so that none can join meanwhile. */
async function leave(folder: ServerFolder, session: PresenceSession): Promise<void> {
  await using _lock = await lockFolder(folder)
  session.socket.ref()
  const current = await renewSession(folder, session)
  if (current === undefined) return
  current.socket.ref() // A new session is unreferenced, and the process could exit too early.
  const isLast = await isOnlyProcess(current)
  await current.client.end()
  if (!isLast) return

  await shutDown(folder)
  await removeSocketFolder(folder, current.connection.host)
}

/** Reconnects if the server has restarted and dropped the session. */
async function renewSession(folder: ServerFolder, session: PresenceSession): Promise<PresenceSession | undefined> {
  const isLost = await session.client.query('select').then(
    () => false,
    () => true,
  )
  if (!isLost) return session
  const server = await findPostmaster(folder)
  const renewed = server && (await trySession(server, session.connection.password))
  return typeof renewed === 'string' ? undefined : renewed
}

/** Maximum wait for the lock. Longer than a start takes on a slow disk. */
const LOCK_MS = 180_000

/** Takes the lock under which the server is started or stopped. */
async function lockFolder(folder: ServerFolder): Promise<AsyncDisposable> {
  const lock = await lockFile(folder.lock, LOCK_MS).catch((error: unknown) => {
    throw notLocked(folder, String(error))
  })
  if (lock) return lock
  throw notLocked(folder, `another Assay has been starting or stopping it for ${LOCK_MS / 1000} s`)
}

const notLocked = (folder: ServerFolder, reason: string): PostgresUnavailable =>
  new PostgresUnavailable(`PostgreSQL in ${folder.path} could not be locked: ${reason}.`, 'Try again later')
