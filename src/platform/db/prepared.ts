import type { CompiledQuery, Kysely, PostgresPool, PostgresPoolClient, QueryResult } from 'kysely'
import type pg from 'pg'
import type { DB } from './tables.gen.ts'

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

/** Wraps a pool so that each connection prepares these queries once and then executes them by name. */
export function withPreparedStatements(pool: pg.Pool): PostgresPool {
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
