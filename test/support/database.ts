import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { connect, type Database } from '../../src/platform/db/db.ts'

export type TestDatabase = Database & { [Symbol.asyncDispose](): Promise<void> }

/** Creates a migrated database, a copy of the template, with a workspace if an id is given. */
export async function testDatabase(options: { max?: number; workspaceId?: string } = {}): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`
  // Copying files takes a third of the processor time of the default strategy, which logs each page.
  const source = `template ${inject('template')} strategy file_copy`
  await maintain((client) => client.query(`create database ${name} ${source}`))
  const database = connect(databaseUrl(name), { max: options.max ?? 10, onError: () => {} })
  if (options.workspaceId !== undefined) {
    const workspace = { id: options.workspaceId, login: 'acme', name: 'Acme', kind: 'org' as const }
    await database.db.insertInto('workspaces').values(workspace).execute()
  }
  return {
    ...database,
    async [Symbol.asyncDispose]() {
      await database.close()
      await maintain((client) => client.query(`drop database ${name} with (force)`))
    },
  }
}

/** Creates a database without tables, for programs that fill it. */
export async function emptyDatabase(): Promise<{ url: string; [Symbol.asyncDispose](): Promise<void> }> {
  const name = `test_${randomBytes(8).toString('hex')}`
  await maintain((client) => client.query(`create database ${name}`))
  return {
    url: databaseUrl(name),
    [Symbol.asyncDispose]: () => maintain((client) => client.query(`drop database ${name} with (force)`)),
  }
}

/** Returns the URL of another database on the same server. */
function databaseUrl(name: string): string {
  const url = new URL(inject('serverUrl'))
  url.pathname = `/${name}`
  return url.href
}

async function maintain(work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl('postgres') })
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}
