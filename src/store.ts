import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Config } from './config.ts'
import { createDataFolder } from './platform/data-folder.ts'
import { connect, type Database, isDatabaseUnavailable } from './platform/db/db.ts'
import { migrate } from './platform/db/migrate.ts'
import { errorText, Outage } from './platform/errors.ts'
import type { Log } from './platform/log.ts'
import { type EmbeddedPostgres, type PostgresConnection, startPostgres } from './platform/postgres/postgres.ts'

/** An open database. `migrated` lists the migrations that were applied when it was opened. */
type DatabaseStore = { database: Database; migrated: string[]; stop(): Promise<void> }

/** Opens and migrates the configured database. The embedded one is started, and restarted whenever it ends. */
export async function openStore(config: Config, log: Log, { migrates = true } = {}): Promise<DatabaseStore> {
  const store = config.databaseUrl
    ? await openExternal(config.databaseUrl, config, log)
    : await openEmbedded(config, log)
  if (!migrates) return { ...store, migrated: [] }
  try {
    return { ...store, migrated: await migrate(store.database.db) }
  } catch (error) {
    await store.stop()
    throw error
  }
}

type OpenedDatabase = Omit<DatabaseStore, 'migrated'>

async function openEmbedded(config: Config, log: Log): Promise<OpenedDatabase> {
  createDataFolder(config.dataFolder)
  const folder = join(config.dataFolder, 'postgres')
  const postgres = await startPostgres({ folder })
  const database = connect(toDatabaseUrl(postgres.connection), {
    max: config.databaseConnections,
    onError: (error) => log.warn({ error }, 'database connection lost'),
  })
  const guard = keepRunning(postgres, folder, log)
  return {
    database,
    stop: async () => {
      await database.close()
      await guard.stop()
    },
  }
}

const RESTART_PAUSE_MS = 1000

/** Restarts the embedded server when it ends. Its address stays the same, so that pools reconnect. */
function keepRunning(first: EmbeddedPostgres, folder: string, log: Log): { stop(): Promise<void> } {
  let current = first
  let isStopping = false
  const watch = async (): Promise<void> => {
    while (!isStopping) {
      await current.lost
      if (isStopping) return
      log.warn('embedded database ended; restarting it')
      current = await restart()
    }
  }
  // Returns the old server if the start fails: it has ended, so `watch` tries again.
  const restart = async (): Promise<EmbeddedPostgres> => {
    try {
      return await startPostgres({ folder })
    } catch (error) {
      log.error({ error }, 'starting the embedded database failed')
      await wait(RESTART_PAUSE_MS)
      return current
    }
  }
  const watching = watch()
  return {
    stop: async () => {
      isStopping = true
      await current.stop()
      await watching
      // The watch may have started another server meanwhile.
      await current.stop()
    },
  }
}

async function openExternal(url: string, config: Config, log: Log): Promise<OpenedDatabase> {
  const database = connect(url, {
    max: config.databaseConnections,
    onError: (error) => log.warn({ error }, 'database connection lost'),
  })
  try {
    await waitUntilReachable(database, log)
    return { database, stop: () => database.close() }
  } catch (error) {
    await database.close()
    throw error
  }
}

/** Maximum wait for a database that starts at the same time as this process. */
const DATABASE_WAIT_MS = 30_000
const LOG_EVERY_MS = 10_000
const POLL_MS = 500

/** Waits until the database responds. Logs at once and then every `LOG_EVERY_MS`. */
async function waitUntilReachable(database: Database, log: Log): Promise<void> {
  const deadline = Date.now() + DATABASE_WAIT_MS
  let logAt = 0
  for (;;) {
    const connectionError = await findConnectionError(database)
    if (connectionError === undefined) return
    if (Date.now() > deadline)
      throw new Outage(`The database of DATABASE_URL does not respond: ${errorText(connectionError)}.`)
    if (Date.now() >= logAt) {
      log.warn({ reason: errorText(connectionError) }, 'waiting for the database of DATABASE_URL')
      logAt = Date.now() + LOG_EVERY_MS
    }
    await wait(POLL_MS)
  }
}

/** Returns the connection error, or undefined if the database responds. */
async function findConnectionError(database: Database): Promise<Error | undefined> {
  try {
    await database.pool.query('select 1')
    return undefined
  } catch (error) {
    if (!(error instanceof Error) || !isDatabaseUnavailable(error)) throw error
    return error
  }
}

export function toDatabaseUrl(connection: PostgresConnection): string {
  const { host, port, user, password, database } = connection
  // An sslmode of the environment must not apply to a unix socket.
  const query = new URLSearchParams({ host, port: String(port), sslmode: 'disable' })
  return `postgres://${encodeURIComponent(user)}:${encodeURIComponent(password)}@localhost/${database}?${query}`
}
