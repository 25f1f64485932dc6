import { type PostgresPool, type PostgresPoolClient, sql } from 'kysely'
import type pg from 'pg'

const MARK = '/* kept */'

/** Stands in a statement that runs so often that planning it each time would cost more than running it. */
export const kept = sql.raw(MARK)

/** The pool as Kysely sees it: each connection prepares what is kept once, and names it afterwards. */
export function keeping(pool: pg.Pool): PostgresPool {
  const known = new WeakMap<pg.PoolClient, PostgresPoolClient>()
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await pool.connect()
      const before = known.get(client)
      const fresh = before ?? keepingClient(client)
      known.set(client, fresh)
      return fresh
    },
  }
}

function keepingClient(client: pg.PoolClient): PostgresPoolClient {
  const query = (text: string, values: unknown[]) =>
    text.includes(MARK) ? client.query({ name: nameOf(text), text, values }) : client.query(text, values)
  // Kysely's other way to ask is with a cursor, which we do not use.
  return {
    query: query as unknown as PostgresPoolClient['query'],
    release: (destroy?: boolean) => client.release(destroy),
  }
}

const names = new Map<string, string>()

function nameOf(text: string): string {
  const name = names.get(text) ?? `kept_${names.size}`
  names.set(text, name)
  return name
}
