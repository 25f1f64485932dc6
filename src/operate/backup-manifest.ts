import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { hasCode, parseOrUndefined } from '../platform/errors.ts'

/** Version of the format: a folder with `backup.json`, `tables/<name>.gz`, `blobs.txt`, and the blobs in `blobs/`. */
const FORMAT = 1
const MANIFEST = 'backup.json'
/** File with the digests of the blobs, one per line. */
export const BLOB_LIST = 'blobs.txt'

const StoredFile = z.object({ bytes: z.number(), sha256: z.string() })
const TableFile = StoredFile.extend({ name: z.string(), columns: z.array(z.string()), rows: z.number() })

const BackupManifest = z.object({
  format: z.literal(FORMAT),
  createdAt: z.string(),
  postgresVersion: z.string(),
  migrations: z.array(z.string()),
  /** Id of the master key that opens the stored credentials. The key itself is not in the backup. */
  masterKeyId: z.string().nullable(),
  /** Each table after the tables that it refers to. */
  tables: z.array(TableFile),
  sequences: z.array(z.object({ name: z.string(), value: z.string().nullable() })),
  blobs: StoredFile.extend({ count: z.number(), totalBytes: z.number() }),
})
export type BackupManifest = z.infer<typeof BackupManifest>
export type TableFile = z.infer<typeof TableFile>
export type StoredFile = z.infer<typeof StoredFile>

/** Thrown when a backup is incomplete, damaged or of another version, or cannot be written. */
export class BackupUnusable extends Error {
  override name = 'BackupUnusable'
}

export const toManifestPath = (folder: string): string => join(folder, MANIFEST)
export const toTablePath = (folder: string, name: string): string => join(folder, 'tables', `${name}.gz`)
export const toBlobFolder = (folder: string): string => join(folder, 'blobs')

export const formatManifest = (manifest: Omit<BackupManifest, 'format'>): string =>
  `${JSON.stringify({ format: FORMAT, ...manifest }, null, 2)}\n`

export async function readManifest(folder: string): Promise<BackupManifest> {
  const text = await readFile(toManifestPath(folder), 'utf8').catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT', 'ENOTDIR')) throw error
    throw new BackupUnusable(
      `${folder} is not a complete backup: it has no ${MANIFEST}. Name a folder that assay backup wrote.`,
    )
  })
  const parsed = BackupManifest.safeParse(parseOrUndefined(() => JSON.parse(text)))
  if (parsed.success) return parsed.data
  throw new BackupUnusable(
    `${toManifestPath(folder)} cannot be read: it is damaged, or a newer Assay wrote it. Use another backup or the newer Assay.`,
  )
}

/** Checks that every file except the blobs is complete and unchanged. Blobs are checked when they are read. */
export async function verifyFiles(folder: string, manifest: BackupManifest): Promise<void> {
  await verifyFile(join(folder, BLOB_LIST), manifest.blobs)
  for (const table of manifest.tables) await verifyFile(toTablePath(folder, table.name), table)
}

async function verifyFile(path: string, expected: StoredFile): Promise<void> {
  const hash = createHash('sha256')
  let bytes = 0
  try {
    for await (const chunk of createReadStream(path)) {
      hash.update(chunk)
      bytes += chunk.length
    }
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
    throw new BackupUnusable(`The backup is incomplete: ${path} is missing.`)
  }
  if (bytes !== expected.bytes)
    throw new BackupUnusable(`The backup is damaged: ${path} has ${bytes} of ${expected.bytes} bytes.`)
  if (hash.digest('hex') !== expected.sha256) throw new BackupUnusable(`The backup is damaged: ${path} was changed.`)
}
