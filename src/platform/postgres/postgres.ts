import { type Binaries, findBinaries } from './binaries.ts'
import { ensurePassword, type Folder, openFolder } from './folder.ts'
import { lockFolder } from './folder-lock.ts'
import { findPostmaster, shutDown } from './postmaster.ts'
import { ensureServer } from './server.ts'
import { type Connection, isAlone, type Session, trySession } from './session.ts'
import { removeSocketFolder } from './socket-folder.ts'
import { explain, PostgresUnavailable } from './unavailable.ts'

export { type Connection, PostgresUnavailable }

export type EmbeddedPostgres = {
  connection: Connection
  /** Resolves when the server is gone, whoever ended it. Starting it again gives the same connection. */
  lost: Promise<void>
  /** Close your own connections first: the server is shut down only when nobody else is connected to it. */
  stop(): Promise<void>
}

/**
 * One server for all processes that start it on the same folder. It outlives a process that is killed, and
 * the next one to start joins it. `durable: false` is for tests: faster, and a power cut may lose all.
 */
export async function startPostgres(options: { folder: string; durable?: boolean }): Promise<EmbeddedPostgres> {
  try {
    const binaries = await findBinaries()
    const folder = await openFolder(options.folder)
    const session = await start(folder, binaries, options.durable ?? true)
    let stopping: Promise<void> | undefined
    return {
      connection: session.connection,
      lost: session.lost,
      stop: () => {
        stopping ??= leave(folder, session)
        return stopping
      },
    }
  } catch (error) {
    throw explain(error, options.folder)
  }
}

async function start(folder: Folder, binaries: Binaries, durable: boolean): Promise<Session> {
  await using _lock = await lockFolder(folder)
  const password = await ensurePassword(folder)
  // Awaited here, because the lock is given back as soon as this function returns.
  return await ensureServer(folder, { binaries, password, durable })
}

/** The last one out turns off the light. Under the lock, so that nobody comes in meanwhile. */
async function leave(folder: Folder, session: Session): Promise<void> {
  await using _lock = await lockFolder(folder)
  session.socket.ref()
  const current = await renewed(folder, session)
  if (current === undefined) return
  current.socket.ref() // a session that is new here lets the process end, too early
  const alone = await isAlone(current)
  await current.client.end()
  if (!alone) return

  await shutDown(folder)
  await removeSocketFolder(folder, current.connection.host)
}

/** A server that crashed and came back has dropped our session. */
async function renewed(folder: Folder, session: Session): Promise<Session | undefined> {
  const lost = await session.client.query('select').then(
    () => false,
    () => true,
  )
  if (!lost) return session
  const server = await findPostmaster(folder)
  const anew = server && (await trySession(server, session.connection.password))
  return typeof anew === 'string' ? undefined : anew
}
