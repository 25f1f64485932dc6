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
  await using cleanup = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'assay-scratch-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true }))

  const server = connectTo(await findServerUrl(folder, cleanup))
  cleanup.defer(server.close)
  const name = `scratch_${randomBytes(8).toString('hex')}`
  await sql`create database ${sql.id(name)}`.execute(server.db)
  cleanup.defer(async () => {
    await sql`drop database ${sql.id(name)} with (force)`.execute(server.db)
  })

  const url = new URL(server.url)
  url.pathname = `/${name}`
  const database = connectTo(url.href)
  cleanup.defer(database.close)
  await migrate(database.db)
  return await work({ database, folder })
}

/** Returns the address of the server in ASSAY_TEST_DATABASE_URL, or starts the embedded server until the cleanup. */
async function findServerUrl(folder: string, cleanup: AsyncDisposableStack): Promise<string> {
  const configuredUrl = process.env.ASSAY_TEST_DATABASE_URL
  if (configuredUrl) return configuredUrl
  const postgres = await startPostgres({ folder: join(folder, 'postgres'), durable: false })
  cleanup.defer(postgres.stop)
  return toDatabaseUrl(postgres.connection)
}

const connectTo = (url: string): Database => connect(url, { max: 2, onError: () => {} })
