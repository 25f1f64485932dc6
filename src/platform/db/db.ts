import {
  type CompiledQuery,
  Kysely,
  PostgresDialect,
  type PostgresPool,
  type PostgresPoolClient,
  type QueryResult,
  type SelectQueryBuilder,
  sql,
} from 'kysely'
import pg from 'pg'
import type { Page } from '../http/page.ts'
import type { DB } from './tables.gen.ts'

/** A pool or an open transaction. Queries do not know which, so none can escape a transaction. */
export type Db = Kysely<DB>

export type Database = { db: Db; pool: pg.Pool; url: string; close(): Promise<void> }

/** Type id of int8 in PostgreSQL. */
const INT8 = 20
// Counts and sizes are returned as int8. All of them are far below 2^53.
pg.types.setTypeParser(INT8, Number)

/** Opens a pool of at most `max` connections. `onError` is called when an idle connection is lost. */
export function connect(url: string, options: { max: number; onError: (error: Error) => void }): Database {
  const pool = new pg.Pool({
    connectionString: url,
    max: options.max,
    application_name: 'assay',
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    // An abandoned statement must not hold its locks indefinitely.
    statement_timeout: 60_000,
    idle_in_transaction_session_timeout: 60_000,
  })
  // The loss of a connection, idle or in a transaction, would end the process if nothing listened to its errors.
  pool.on('error', options.onError)
  pool.on('connect', (client) => client.on('error', () => {}))
  const db = new Kysely<DB>({ dialect: new PostgresDialect({ pool: withPreparedStatements(pool) }) })
  return { db, pool, url, close: () => db.destroy() }
}

/** Runs `work` in the open transaction, or in a new one. */
export const transact = <T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> =>
  db.isTransaction ? work(db) : db.transaction().execute(work)

/** Takes the advisory lock of this name until the transaction ends. */
export const lock = (tx: Db, name: string): Promise<unknown> =>
  sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`.execute(tx)

/** Returns the SQLSTATE of a PostgreSQL error, undefined for other errors. */
export const sqlStateOf = (error: unknown): string | undefined =>
  error instanceof pg.DatabaseError ? error.code : undefined

/** Network errors of Node, then SQLSTATEs of PostgreSQL. */
const UNAVAILABLE_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EPIPE',
  'ETIMEDOUT',
  '57P01', // admin_shutdown
  '57P02', // crash_shutdown
  '57P03', // cannot_connect_now
  '53300', // too_many_connections
  '55000', // object_not_in_prerequisite_state
  '08006', // connection_failure
])

/** Returns true for errors of a server that is down, starting or full: a retry may succeed soon. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  // A missing file has the same code as a missing socket, and a `path`.
  if ('path' in error) return false
  const code = 'code' in error ? String(error.code) : ''
  return (
    UNAVAILABLE_CODES.has(code) ||
    /Connection terminated|not queryable|timeout exceeded when trying to connect/.test(error.message)
  )
}

/** Matches NUL and lone surrogates as JSON.stringify escapes them. Other escapes match as a whole and are kept. */
const ESCAPES = /\\(?:u(0000|d[89a-f][0-9a-f]{2})|.)/gs

/** Serialises untrusted values, keys included, with U+FFFD for the characters that PostgreSQL cannot store. */
export const storableJson = (value: unknown): string =>
  JSON.stringify(value).replace(ESCAPES, (whole, unstorable?: string) => (unstorable === undefined ? whole : '\ufffd'))

/** Replaces the characters that PostgreSQL cannot store in a text column with U+FFFD. */
export const storableText = (text: string): string => text.replaceAll('\0', '\ufffd').toWellFormed()

/**
 * Sorts by a time column and then by id, newest first, and selects the page after the cursor plus one row, whose presence
 * means that there is another page.
 */
export const pageNewestFirst =
  (timeColumn: string, { cursor, limit }: Page, idType: 'uuid' | 'bigint' = 'uuid') =>
  <DB, TB extends keyof DB, O>(query: SelectQueryBuilder<DB, TB, O>): SelectQueryBuilder<DB, TB, O> => {
    const sorted = query
      .orderBy(sql.ref(timeColumn), 'desc')
      .orderBy(sql.ref('id'), 'desc')
      .limit(limit + 1)
    if (cursor === undefined) return sorted
    return sorted.where(
      sql<boolean>`(${sql.ref(timeColumn)}, id) < (${cursor.at}::timestamptz, ${cursor.id}::${sql.raw(idType)})`,
    )
  }

/** Names of the prepared statements by their text. */
const statementNames = new Map<string, string>()

/** A query builder, or a query in plain SQL. */
type PreparableQuery<Row> = { compile(db: Kysely<DB>): CompiledQuery<Row> }

/**
 * Executes a query as a prepared statement, for queries so frequent that planning them each time would cost more than
 * running them. The text of the query must be constant: each text is prepared once per connection and never dropped.
 */
export function executePrepared<Row>(db: Kysely<DB>, query: PreparableQuery<Row>): Promise<QueryResult<Row>> {
  const compiled = query.compile(db)
  if (!statementNames.has(compiled.sql)) statementNames.set(compiled.sql, `prepared_${statementNames.size}`)
  return db.executeQuery(compiled)
}

/** Wraps a pool so that each connection prepares the queries of `executePrepared` once and then executes them by name. */
function withPreparedStatements(pool: pg.Pool): PostgresPool {
  const wrappers = new WeakMap<pg.PoolClient, PostgresPoolClient>()
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await pool.connect()
      const wrapper = wrappers.get(client) ?? wrapClient(client)
      wrappers.set(client, wrapper)
      return wrapper
    },
  }
}

function wrapClient(client: pg.PoolClient): PostgresPoolClient {
  const query = (text: string, values: unknown[]) => {
    const name = statementNames.get(text)
    return name === undefined ? client.query(text, values) : client.query({ name, text, values })
  }
  // Kysely's other overload takes a cursor, which we do not use.
  return {
    query: query as unknown as PostgresPoolClient['query'],
    release: (destroy?: boolean) => client.release(destroy),
  }
}
