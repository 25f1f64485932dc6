import type { Readable } from 'node:stream'
import { type Blobs, type Digest, isDigest } from '../platform/blobs/blob.ts'
import { hashOwned, openOwned, putOwned } from '../platform/blobs/owned-blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { deleteUnusedArchive, dropArchives, listUnusedArchives, upsertArchive } from './sql.ts'

type ArchiveDeps = { db: Db; blobs: Blobs }

const blobOwner = (batch: string): string => `batch ${batch}`

/**
 * Stores the archive where every worker can read it. The row is written first: a row without its blob is swept later,
 * but a blob without a row would leak.
 */
export async function storeArchive({ db, blobs }: ArchiveDeps, batch: string, path: string): Promise<Digest> {
  const digest = await hashOwned(blobOwner(batch), path)
  await upsertArchive(db, digest)
  await putOwned(blobs, blobOwner(batch), path, digest)
  return digest
}

/** Opens an archive as it was uploaded. */
export const openArchive = (blobs: Blobs, batch: string, digest: string): Promise<Readable> =>
  openOwned(blobs, blobOwner(batch), digest)

const SWEEP_MAX = 1000
/** Number of days for which a canceled or failed batch can be resumed. */
const RESUMABLE_DAYS = 7

/** Removes archives that no batch needs. */
export async function sweepArchives({ db, blobs }: ArchiveDeps): Promise<void> {
  await dropArchives(db, RESUMABLE_DAYS)
  for (const { digest } of await listUnusedArchives(db, SWEEP_MAX)) {
    await transact(db, async (tx) => {
      if ((await deleteUnusedArchive(tx, digest)) && isDigest(digest)) await blobs.remove(digest)
    })
  }
}
