import { readdir, readFile } from 'node:fs/promises'
import { sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import type { Db } from './db.ts'

const MIGRATIONS_FOLDER = new URL('../../../migrations/', import.meta.url)
export const POSTGRES_VERSION_MIN = 15

/** Applies pending migrations and returns their names. Safe to call from several processes: the migrator takes a lock. */
export async function migrate(db: Db): Promise<string[]> {
  await requirePostgresVersion(db)
  const { error, results } = await createMigrator(db).migrateToLatest()
  if (error) throw new Error('Migrating the database failed.', { cause: error })
  return (results ?? []).map((result) => result.migrationName)
}

/** Applies the migrations up to the named one and returns the names of all that the database has then. */
export async function migrateTo(db: Db, last: string): Promise<string[]> {
  await requirePostgresVersion(db)
  const pending = new Set(await listPendingMigrations(db))
  if (pending.has(last)) {
    const { error } = await createMigrator(db).migrateTo(last)
    if (error) throw new Error('Migrating the database failed.', { cause: error })
  }
  const all = await createMigrator(db).getMigrations()
  return all.filter((migration) => migration.executedAt).map((migration) => migration.name)
}

/** Lists the migrations of this program, in their order. */
export const listKnownMigrations = async (): Promise<string[]> => Object.keys(await readMigrations())

/** Lists the migrations of this program that the database lacks. */
export async function listPendingMigrations(db: Db): Promise<string[]> {
  const all = await createMigrator(db).getMigrations()
  return all.filter((migration) => !migration.executedAt).map((migration) => migration.name)
}

async function requirePostgresVersion(db: Db): Promise<void> {
  const version = await readServerVersion(db)
  if (isPostgresTooOld(version))
    throw new Error(`The database is PostgreSQL ${version}; Assay needs ${POSTGRES_VERSION_MIN} or newer.`)
}

export async function readServerVersion(db: Db): Promise<string> {
  const { rows } = await sql<{ version: string }>`select current_setting('server_version') as version`.execute(db)
  return rows[0]?.version ?? 'unknown'
}

/** Returns true for versions that Assay does not support. A version that cannot be read counts as too old. */
export const isPostgresTooOld = (version: string): boolean => !(Number.parseInt(version, 10) >= POSTGRES_VERSION_MIN)

const createMigrator = (db: Db) => new Migrator({ db, provider: { getMigrations: readMigrations } })

async function readMigrations(): Promise<Record<string, Migration>> {
  const files = (await readdir(MIGRATIONS_FOLDER)).filter((file) => file.endsWith('.sql')).sort()
  const migrations = files.map(async (file): Promise<[string, Migration]> => {
    const text = await readFile(new URL(file, MIGRATIONS_FOLDER), 'utf8')
    return [file.replace(/\.sql$/, ''), { up: async (db) => void (await sql.raw(text).execute(db)) }]
  })
  return Object.fromEntries(await Promise.all(migrations))
}
