import { type Kysely, Kysely as KyselyClass, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { keeping } from './kept.ts'
import type { DB } from './tables.gen.ts'

/** A pool or an open transaction: a query never knows which, so it can never escape the transaction. */
export type Db = Kysely<DB>

export type Database = { db: Db; pool: pg.Pool; url: string; close(): Promise<void> }

const INT8 = 20
// Counts and sizes come as int8. All of ours are far below 2^53.
pg.types.setTypeParser(INT8, Number)

export function connect(url: string, options: { max: number; onError: (error: Error) => void }): Database {
  const pool = new pg.Pool({
    connectionString: url,
    max: options.max,
    application_name: 'assay',
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    // A statement that nobody waits for any more must not hold its locks for ever.
    statement_timeout: 60_000,
    idle_in_transaction_session_timeout: 60_000,
  })
  // Without listeners the loss of a connection, idle or in the middle of a transaction, ends the process.
  pool.on('error', options.onError)
  pool.on('connect', (client) => client.on('error', () => {}))
  const db = new KyselyClass<DB>({ dialect: new PostgresDialect({ pool: keeping(pool) }) })
  return { db, pool, url, close: () => db.destroy() }
}

/** Runs `work` in the open transaction, or in a new one. */
export const transact = <T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> =>
  db.isTransaction ? work(db) : db.transaction().execute(work)

/** Serialises everyone who names the same lock, until the transaction ends. */
export const lock = (tx: Db, name: string): Promise<unknown> =>
  sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`.execute(tx)

/** PostgreSQL's five-letter code of an error, if it is one. */
export const errorCode = (error: unknown): string | undefined =>
  error instanceof pg.DatabaseError ? error.code : undefined

const AWAY = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EPIPE',
  'ETIMEDOUT',
  '57P01',
  '57P02',
  '57P03',
  '53300',
  '55000',
  '08006',
])

/** The server is gone, starting or full: the same request may succeed in a moment. */
export function databaseIsAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  // A file that is missing has the code of a socket that is missing, and a path besides.
  if ('path' in error) return false
  const code = 'code' in error ? String(error.code) : ''
  return (
    AWAY.has(code) || /Connection terminated|not queryable|timeout exceeded when trying to connect/.test(error.message)
  )
}
