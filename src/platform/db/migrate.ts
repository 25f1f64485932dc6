import { readdir, readFile } from 'node:fs/promises'
import { sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import type { Db } from './db.ts'

const FOLDER = new URL('../../../migrations/', import.meta.url)
const FLOOR = 15

/** Brings the tables up to date. Safe to call from any number of processes at once: the migrator takes a lock. */
export async function migrate(db: Db): Promise<string[]> {
  await requireVersion(db)
  const { error, results } = await migrator(db).migrateToLatest()
  if (error) throw new Error('The database could not be migrated.', { cause: error })
  return (results ?? []).map((result) => result.migrationName)
}

/** Names of migrations that this program has and the database lacks. */
export async function pendingMigrations(db: Db): Promise<string[]> {
  const all = await migrator(db).getMigrations()
  return all.filter((migration) => !migration.executedAt).map((migration) => migration.name)
}

async function requireVersion(db: Db): Promise<void> {
  const { rows } = await sql<{ version: number }>`select current_setting('server_version_num')::int as version`.execute(
    db,
  )
  const major = Math.floor((rows[0]?.version ?? 0) / 10_000)
  if (major < FLOOR) throw new Error(`DATABASE_URL names PostgreSQL ${major}; Assay needs ${FLOOR} or newer.`)
}

const migrator = (db: Db) => new Migrator({ db, provider: { getMigrations: readMigrations } })

async function readMigrations(): Promise<Record<string, Migration>> {
  const files = (await readdir(FOLDER)).filter((file) => file.endsWith('.sql')).sort()
  const migrations = files.map(async (file): Promise<[string, Migration]> => {
    const text = await readFile(new URL(file, FOLDER), 'utf8')
    return [file.replace(/\.sql$/, ''), { up: async (db) => void (await sql.raw(text).execute(db)) }]
  })
  return Object.fromEntries(await Promise.all(migrations))
}
