import { createReadStream } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import type { Config } from '../config.ts'
import { readKeys, resolveKeySource } from '../credentials/key-file.ts'
import { isDigest } from '../platform/blobs/blob.ts'
import { openBlobs } from '../platform/blobs/blobs.ts'
import { fileBlobs } from '../platform/blobs/file-blobs.ts'
import { createDataFolder } from '../platform/data-folder.ts'
import {
  type CopyClient,
  findFilledTable,
  listTables,
  setSequences,
  type TableColumns,
  withCopyClient,
  writeTable,
} from '../platform/db/copy-tables.ts'
import type { Database } from '../platform/db/db.ts'
import { listKnownMigrations, migrate, migrateTo } from '../platform/db/migrate.ts'
import type { Log } from '../platform/log.ts'
import { openStore } from '../store.ts'
import type { BackupSummary, CopyProgress } from './backup.ts'
import {
  type BackupManifest,
  BackupUnusable,
  BLOB_LIST,
  readManifest,
  type TableFile,
  toBlobFolder,
  toTablePath,
  verifyFiles,
} from './backup-manifest.ts'

/** Thrown when the target database has data or newer tables. Nothing was changed. */
class TargetNotEmpty extends Error {
  override name = 'TargetNotEmpty'
}

/**
 * Restores a backup into the configured database and blobs, which must be empty. Everything that can be checked is
 * checked first, the rows appear in one transaction, and an interrupted restore can be repeated.
 */
export async function restore(
  config: Config,
  log: Log,
  { folder, onProgress }: { folder: string; onProgress: CopyProgress },
): Promise<BackupSummary> {
  const source = resolve(folder)
  const manifest = await readManifest(source)
  await requireKnownMigrations(manifest)
  await requireMasterKey(config, manifest)
  onProgress('checking the backup')
  await verifyFiles(source, manifest)

  createDataFolder(config.dataFolder)
  const store = await openStore(config, log, { migrates: false })
  try {
    await prepareEmptyDatabase(store.database, manifest.migrations)
    await restoreBlobs(config, source, onProgress)
    await withCopyClient(store.database, (client) => restoreTables(client, source, manifest, onProgress))
    onProgress('migrating the database')
    await migrate(store.database.db)
  } finally {
    await store.stop()
  }
  const rows = manifest.tables.reduce((sum, table) => sum + table.rows, 0)
  const bytes = manifest.tables.reduce((sum, table) => sum + table.bytes, manifest.blobs.totalBytes)
  return { folder: source, tables: manifest.tables.length, rows, blobs: manifest.blobs.count, bytes }
}

async function requireKnownMigrations({ migrations }: BackupManifest): Promise<void> {
  const known = await listKnownMigrations()
  const unknown = migrations.find((name) => !known.includes(name))
  if (unknown === undefined) return
  throw new BackupUnusable(
    `The backup was made by a newer Assay, with migration ${unknown}. Install that version first.`,
  )
}

/** Throws without the master key of the backup's credentials: they would be unreadable, and the service would not start. */
async function requireMasterKey(config: Config, { masterKeyId }: BackupManifest): Promise<void> {
  if (masterKeyId === null || !config.credentialStorage) return
  const source = resolveKeySource(config)
  const keys = await readKeys(source)
  if (keys.some(({ id }) => id === masterKeyId)) return
  const problem = source.kind === 'variable' ? 'ASSAY_SECRET_KEY does not contain' : `${source.path} is not`
  throw new BackupUnusable(
    `${problem} master key ${masterKeyId}, with which the credentials of the backup are sealed. Copy the key file of the old service to ${join(config.dataFolder, 'secret.key')}, or set ASSAY_SECRET_KEY.`,
  )
}

/** Brings an empty database to the migrations of a copy, so that its tables have the same columns. */
export async function prepareEmptyDatabase(database: Database, migrations: readonly string[]): Promise<void> {
  const lastMigration = migrations.at(-1)
  if (lastMigration === undefined) throw new BackupUnusable('The database to copy from was never migrated.')
  const filledTable = await withCopyClient(database, findFilledTable)
  if (filledTable !== undefined)
    throw new TargetNotEmpty(
      `The target database is not empty: its table ${filledTable} has rows. Name another data folder with --data, or another database with DATABASE_URL. Nothing was changed.`,
    )
  const migrated = await migrateTo(database.db, lastMigration)
  if (migrated.join() === migrations.join()) return
  throw new TargetNotEmpty(
    'The target database has newer tables than the data to copy. Use a new database. Nothing was changed.',
  )
}

async function restoreBlobs(config: Config, folder: string, onProgress: CopyProgress): Promise<void> {
  const target = openBlobs(config.blobs, join(config.dataFolder, 'spool'))
  const source = fileBlobs(toBlobFolder(folder))
  let count = 0
  for await (const digest of createInterface({ input: createReadStream(join(folder, BLOB_LIST)) })) {
    if (!isDigest(digest)) throw new BackupUnusable(`The backup is damaged: ${BLOB_LIST} contains an invalid digest.`)
    await target.put(await source.get(digest), { expect: digest })
    count += 1
    onProgress(`blob ${count}`)
  }
}

async function restoreTables(
  client: CopyClient,
  folder: string,
  { tables, sequences }: BackupManifest,
  onProgress: CopyProgress,
): Promise<void> {
  await client.query('begin')
  requireSameTables(await listTables(client), tables)
  for (const table of tables) {
    onProgress(`table ${table.name}`)
    const target = writeTable(client, table)
    await pipeline(createReadStream(toTablePath(folder, table.name)), createGunzip(), target)
    requireRows(table, target.rowCount)
  }
  await setSequences(client, sequences)
  await client.query('commit')
}

function requireSameTables(migrated: readonly TableColumns[], copied: readonly TableFile[]): void {
  const describe = (tables: readonly TableColumns[]) =>
    tables.map(({ name, columns }) => `${name}(${[...columns].sort().join()})`).sort()
  const [expected, found] = [describe(copied), describe(migrated)]
  const difference =
    expected.find((table) => !found.includes(table)) ?? found.find((table) => !expected.includes(table))
  if (difference === undefined) return
  throw new BackupUnusable(`The tables of the backup and of this Assay differ: ${difference}. The backup was changed.`)
}

export function requireRows(table: { name: string; rows: number }, written: number): void {
  if (written === table.rows) return
  throw new BackupUnusable(`Table ${table.name} got ${written} of ${table.rows} rows. Nothing was copied.`)
}
