import { type PostgresPool, type PostgresPoolClient, sql } from 'kysely'
import type pg from 'pg'

const MARK = '/* prepared */'

/** Marks a query as a prepared statement: it runs so often that planning it each time would cost more than running it. */
export const prepared = sql.raw(MARK)

/** Wraps a pool so that each connection prepares a marked query once and then executes it by name. */
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
  const query = (text: string, values: unknown[]) =>
    text.includes(MARK) ? client.query({ name: statementName(text), text, values }) : client.query(text, values)
  // Kysely's other overload takes a cursor, which we do not use.
  return {
    query: query as unknown as PostgresPoolClient['query'],
    release: (destroy?: boolean) => client.release(destroy),
  }
}

const names = new Map<string, string>()

function statementName(text: string): string {
  const name = names.get(text) ?? `prepared_${names.size}`
  names.set(text, name)
  return name
}
