import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { connect, type Database } from '../src/platform/db/db.ts'
import { migrate } from '../src/platform/db/migrate.ts'
import { startPostgres } from '../src/platform/postgres/postgres.ts'
import { toDatabaseUrl } from '../src/store.ts'

export type ScratchDatabase = { database: Database; folder: string }

/** Runs work with a migrated database and an empty folder, and removes both afterwards. */
export async function withScratchDatabase<T>(work: (scratch: ScratchDatabase) => Promise<T>): Promise<T> {
  await using undo = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'assay-scratch-'))
  undo.defer(() => rm(folder, { recursive: true, force: true }))

  const server = open(await serverUrl(folder, undo))
  undo.defer(server.close)
  const name = `scratch_${randomBytes(8).toString('hex')}`
  await sql`create database ${sql.id(name)}`.execute(server.db)
  undo.defer(async () => void (await sql`drop database ${sql.id(name)} with (force)`.execute(server.db)))

  const url = new URL(server.url)
  url.pathname = `/${name}`
  const database = open(url.href)
  undo.defer(database.close)
  await migrate(database.db)
  return await work({ database, folder })
}

/** Uses the given server, or starts the embedded one temporarily. */
async function serverUrl(folder: string, undo: AsyncDisposableStack): Promise<string> {
  const named = process.env.ASSAY_TEST_DATABASE_URL
  if (named) return named
  const postgres = await startPostgres({ folder: join(folder, 'postgres'), durable: false })
  undo.defer(postgres.stop)
  return toDatabaseUrl(postgres.connection)
}

const open = (url: string): Database => connect(url, { max: 2, onError: () => {} })
