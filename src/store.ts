import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Config } from './config.ts'
import { connect, type Database, isDatabaseUnavailable } from './platform/db/db.ts'
import { migrate } from './platform/db/migrate.ts'
import type { Log } from './platform/log.ts'
import { type Connection, type EmbeddedPostgres, startPostgres } from './platform/postgres/postgres.ts'

/** The database that the configuration names, migrated, and whatever it takes to keep it running. */
export type Store = { database: Database; migrated: string[]; stop(): Promise<void> }

const DATABASE_WAIT_MS = 30_000

export async function openStore(config: Config, log: Log): Promise<Store> {
  if (config.databaseUrl) return openNamed(config.databaseUrl, config, log)

  const folder = join(config.dataFolder, 'postgres')
  const postgres = await startPostgres({ folder })
  const database = connect(urlOf(postgres.connection), {
    max: config.databaseConnections,
    onError: (error) => log.warn({ error }, 'a database connection was lost'),
  })
  const guard = keepRunning(postgres, folder, log)
  const migrated = await migrate(database.db)
  return {
    database,
    migrated,
    stop: async () => {
      await database.close()
      await guard.stop()
    },
  }
}

/** The embedded server can be killed under us. Started again, it is where every pool looks for it. */
function keepRunning(first: EmbeddedPostgres, folder: string, log: Log): { stop(): Promise<void> } {
  let current = first
  let stopping = false
  const watch = async (): Promise<void> => {
    while (!stopping) {
      await current.lost
      if (stopping) return
      log.warn('the embedded database went away; starting it again')
      current = await startAgain().catch(() => current)
    }
  }
  const startAgain = async (): Promise<EmbeddedPostgres> => {
    try {
      return await startPostgres({ folder })
    } catch (error) {
      log.error({ error }, 'the embedded database could not be started')
      await wait(1000)
      throw error
    }
  }
  const watching = watch()
  return {
    stop: async () => {
      stopping = true
      await current.stop()
      await watching
      await current.stop()
    },
  }
}

async function openNamed(url: string, config: Config, log: Log): Promise<Store> {
  const database = connect(url, {
    max: config.databaseConnections,
    onError: (error) => log.warn({ error }, 'a database connection was lost'),
  })
  try {
    await untilReachable(database, log)
    return { database, migrated: await migrate(database.db), stop: () => database.close() }
  } catch (error) {
    await database.close()
    throw error
  }
}

/** A database that starts together with us may need a moment longer. It is said at once, and then now and then. */
async function untilReachable(database: Database, log: Log): Promise<void> {
  const deadline = Date.now() + DATABASE_WAIT_MS
  for (let sayAt = 0; ; ) {
    const trouble = await troubleWith(database)
    if (trouble === undefined) return
    if (Date.now() > deadline)
      throw new Error(`DATABASE_URL names a database that does not answer: ${reasonOf(trouble)}.`)
    if (Date.now() >= sayAt) {
      log.warn({ reason: reasonOf(trouble) }, 'waiting for the database that DATABASE_URL names')
      sayAt = Date.now() + SAY_EVERY_MS
    }
    await wait(500)
  }
}

const SAY_EVERY_MS = 10_000

/** Undefined: it answers. */
async function troubleWith(database: Database): Promise<Error | undefined> {
  try {
    await database.pool.query('select 1')
    return undefined
  } catch (error) {
    if (!(error instanceof Error) || !isDatabaseUnavailable(error)) throw error
    return error
  }
}

/** Node gives one error for all addresses of a host, and leaves its message empty. */
const reasonOf = (error: Error): string => error.message || ('code' in error ? String(error.code) : error.name)

export function urlOf(connection: Connection): string {
  const { host, port, user, password, database } = connection
  // A sslmode from the environment must not reach a unix socket.
  const query = new URLSearchParams({ host, port: String(port), sslmode: 'disable' })
  return `postgres://${encodeURIComponent(user)}:${encodeURIComponent(password)}@localhost/${database}?${query}`
}
