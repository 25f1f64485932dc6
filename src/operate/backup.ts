import { createHash } from 'node:crypto'
import { createWriteStream, existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { PassThrough, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Config } from '../config.ts'
import { BlobMissing, type Blobs, type Digest, isDigest } from '../platform/blobs/blob.ts'
import { openBlobs } from '../platform/blobs/blobs.ts'
import { fileBlobs } from '../platform/blobs/file-blobs.ts'
import { syncFolder } from '../platform/data-folder.ts'
import {
  beginSnapshot,
  type CopyClient,
  listMigrations,
  listSequences,
  listTables,
  readTable,
  type TableColumns,
  withCopyClient,
} from '../platform/db/copy-tables.ts'
import type { Database, Db } from '../platform/db/db.ts'
import { explainDisk } from '../platform/errors.ts'
import type { Log } from '../platform/log.ts'
import {
  BackupUnusable,
  BLOB_LIST,
  formatManifest,
  type StoredFile,
  type TableFile,
  toBlobFolder,
  toManifestPath,
  toTablePath,
} from './backup-manifest.ts'
import { withExistingData } from './operate.ts'

export type BackupSummary = { folder: string; tables: number; rows: number; blobs: number; bytes: number }
/** Called with what is being copied now, such as `table trials`. */
export type CopyProgress = (step: string) => void

/**
 * Writes a consistent backup of the database and the blobs into a new folder, while the service may run. The folder gets
 * its name when the backup is complete; until then it is called `<folder>.unfinished-…`, and a failure removes it.
 */
export async function backUp(
  config: Config,
  log: Log,
  { folder, onProgress }: { folder: string; onProgress: CopyProgress },
): Promise<BackupSummary> {
  const target = resolve(folder)
  if (existsSync(target)) throw new BackupUnusable(`${target} exists. Name a new folder for the backup.`)
  const work = async (_: Db, database: Database): Promise<BackupSummary> => {
    const draft = await createDraft(target)
    try {
      const blobs = openBlobs(config.blobs, join(draft, 'spool'))
      const summary = await withCopyClient(database, (client) => writeBackup(client, blobs, draft, onProgress))
      await syncFolder(draft)
      await rename(draft, target)
      await syncFolder(dirname(target))
      return { folder: target, ...summary }
    } catch (error) {
      await rm(draft, { recursive: true, force: true })
      throw explainDisk(error, dirname(target))
    }
  }
  return withExistingData(config, log, work, { migrates: false })
}

async function createDraft(target: string): Promise<string> {
  try {
    await mkdir(dirname(target), { recursive: true })
    return await mkdtemp(join(dirname(target), `${basename(target)}.unfinished-`))
  } catch (error) {
    throw explainDisk(error, dirname(target))
  }
}

async function writeBackup(
  client: CopyClient,
  blobs: Blobs,
  folder: string,
  onProgress: CopyProgress,
): Promise<Omit<BackupSummary, 'folder'>> {
  await mkdir(join(folder, 'tables'))
  await beginSnapshot(client)
  const databaseFacts = await describeDatabase(client)
  const digests = new Set<string>()
  const tables: TableFile[] = []
  for (const table of await listTables(client)) {
    onProgress(`table ${table.name}`)
    tables.push(await backUpTable(client, table, folder, digests))
  }
  await client.query('commit')
  // Blobs are copied after the tables, so that every blob that the tables name exists. Blobs never change.
  const copied = await backUpBlobs(blobs, digests, folder, onProgress)
  await rm(join(folder, 'spool'), { recursive: true, force: true })
  await writeFile(
    toManifestPath(folder),
    formatManifest({ createdAt: new Date().toISOString(), ...databaseFacts, tables, blobs: copied }),
    { flush: true },
  )
  const rows = tables.reduce((sum, table) => sum + table.rows, 0)
  const bytes = tables.reduce((sum, table) => sum + table.bytes, copied.totalBytes)
  return { tables: tables.length, rows, blobs: copied.count, bytes }
}

async function describeDatabase(client: CopyClient) {
  const { rows } = await client.query<{ version: string; key: string | null }>(
    `select current_setting('server_version') as version, (select id from master_keys where active) as key`,
  )
  const [{ version, key } = { version: 'unknown', key: null }] = rows
  return {
    postgresVersion: version,
    masterKeyId: key,
    migrations: await listMigrations(client),
    sequences: await listSequences(client),
  }
}

async function backUpTable(
  client: CopyClient,
  table: TableColumns,
  folder: string,
  digests: Set<string>,
): Promise<TableFile> {
  const source = readTable(client, table)
  const path = toTablePath(folder, table.name)
  const meter = createFileMeter()
  await pipeline(
    source,
    collectDigests(digests),
    createGzip({ level: 1 }),
    meter.stream,
    createWriteStream(path, { flush: true }),
  )
  return { ...table, rows: source.rowCount, ...meter.result() }
}

const DIGEST = /sha256:[0-9a-f]{64}/g
const DIGEST_LENGTH = 'sha256:'.length + 64

/** Passes rows through and adds every digest in them to `digests`: it may be the name of a blob. */
function collectDigests(digests: Set<string>): Transform {
  let tail = ''
  return new Transform({
    transform(chunk: Buffer, _, done) {
      const text = tail + chunk.toString('latin1')
      let end = 0
      for (const match of text.matchAll(DIGEST)) {
        digests.add(match[0])
        end = match.index + DIGEST_LENGTH
      }
      // A digest may continue in the next chunk.
      tail = text.slice(Math.max(end, text.length - DIGEST_LENGTH + 1))
      done(null, chunk)
    },
  })
}

function createFileMeter(): { stream: PassThrough; result: () => StoredFile } {
  const hash = createHash('sha256')
  let bytes = 0
  const stream = new PassThrough()
  stream.on('data', (chunk: Buffer) => {
    hash.update(chunk)
    bytes += chunk.length
  })
  return { stream, result: () => ({ bytes, sha256: hash.digest('hex') }) }
}

/** Copies the blobs that the tables name. A digest that names no blob, or one removed meanwhile, is skipped. */
async function backUpBlobs(blobs: Blobs, digests: ReadonlySet<string>, folder: string, onProgress: CopyProgress) {
  const target = fileBlobs(toBlobFolder(folder))
  const copied = { count: 0, totalBytes: 0 }
  async function* copyAll(): AsyncGenerator<string> {
    for (const digest of digests) {
      const bytes = isDigest(digest) ? await copyBlob(blobs, target, digest) : undefined
      if (bytes === undefined) continue
      copied.count += 1
      copied.totalBytes += bytes
      onProgress(`blob ${copied.count}`)
      yield `${digest}\n`
    }
  }
  const meter = createFileMeter()
  await pipeline(copyAll, meter.stream, createWriteStream(join(folder, BLOB_LIST), { flush: true }))
  return { ...copied, ...meter.result() }
}

async function copyBlob(source: Blobs, target: Blobs, digest: Digest): Promise<number | undefined> {
  if (!(await source.find(digest))) return undefined
  try {
    return (await target.put(await source.get(digest), { expect: digest })).bytes
  } catch (error) {
    if (error instanceof BlobMissing) return undefined
    throw error
  }
}
