import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { Config } from './config.ts'
import { connect, type Database, databaseIsAway } from './platform/db/db.ts'
import { migrate } from './platform/db/migrate.ts'
import type { Log } from './platform/log.ts'
import { type Connection, startPostgres } from './platform/postgres/postgres.ts'

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
  const guard = guardPostgres(folder, database.url, log)
  const migrated = await migrate(database.db)
  return {
    database,
    migrated,
    stop: async () => {
      await guard.stop()
      await database.close()
      await postgres.stop()
    },
  }
}

/**
 * The embedded server can be killed under us. A connection that only waits tells at once when that happens;
 * starting the server again gives the same address, where every pool finds it.
 */
function guardPostgres(folder: string, url: string, log: Log): { stop(): Promise<void> } {
  let stopping = false
  let client: pg.Client | undefined
  const watch = async (): Promise<void> => {
    while (!stopping) {
      try {
        await startPostgres({ folder })
        client = new pg.Client({ connectionString: url })
        const lost = new Promise<void>((resolve) => client?.on('end', () => resolve()).on('error', () => resolve()))
        await client.connect()
        await lost
        if (!stopping) log.warn('the embedded database went away; starting it again')
      } catch (error) {
        log.error({ error }, 'the embedded database could not be started')
        await wait(1000)
      }
    }
  }
  const watching = watch()
  return {
    stop: async () => {
      stopping = true
      await client?.end().catch(() => {})
      await watching
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

/** A database that starts together with us may need a moment longer. */
async function untilReachable(database: Database, log: Log): Promise<void> {
  const deadline = Date.now() + DATABASE_WAIT_MS
  while (!(await answers(database, log))) {
    if (Date.now() > deadline) throw new Error('DATABASE_URL names a database that does not answer.')
    await wait(500)
  }
}

async function answers(database: Database, log: Log): Promise<boolean> {
  try {
    await database.pool.query('select 1')
    return true
  } catch (error) {
    if (!databaseIsAway(error)) throw error
    log.warn({ error }, 'waiting for the database')
    return false
  }
}

export function urlOf(connection: Connection): string {
  const { host, port, user, password, database } = connection
  const query = new URLSearchParams({ host, port: String(port) })
  return `postgres://${encodeURIComponent(user)}:${encodeURIComponent(password)}@localhost/${database}?${query}`
}
