import type { Readable } from 'node:stream'
import { type Blobs, type Digest, isDigest } from '../platform/blobs/blob.ts'
import { openOwned, ownedDigest, putOwned } from '../platform/blobs/owned-blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { deleteUnusedArchive, dropArchives, listUnusedArchives, noteArchive } from './sql.ts'

type Tools = { db: Db; blobs: Blobs }

const ownerOf = (batch: string): string => `batch ${batch}`

/** Where any worker finds it. The row first: a row without its blob is swept away one day, a blob without a row never. */
export async function keepArchive({ db, blobs }: Tools, batch: string, path: string): Promise<Digest> {
  const digest = await ownedDigest(ownerOf(batch), path)
  await noteArchive(db, digest)
  await putOwned(blobs, ownerOf(batch), path, digest)
  return digest
}

/** The bytes as they were sent. */
export const openArchive = (blobs: Blobs, batch: string, digest: string): Promise<Readable> =>
  openOwned(blobs, ownerOf(batch), digest)

const SWEEP_MAX = 1000
/** Who has canceled a batch, or seen it break, may want to go on with it; not for ever. */
const STOPPED_DAYS = 7

/** Removes archives that no batch needs any more. */
export async function sweepArchives({ db, blobs }: Tools): Promise<void> {
  await dropArchives(db, STOPPED_DAYS)
  for (const { digest } of await listUnusedArchives(db, SWEEP_MAX)) {
    await transact(db, async (tx) => {
      if ((await deleteUnusedArchive(tx, digest)) && isDigest(digest)) await blobs.remove(digest)
    })
  }
}
