import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { type Blobs, type Digest, isDigest } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { deleteUnusedArchive, listUnusedArchives, noteArchive } from './sql.ts'

type Tools = { db: Db; blobs: Blobs }

/** Before the bytes that were sent: no blob of ours is ever the same by chance, so that one may go without the other. */
const headOf = (batch: string): Buffer => Buffer.from(`batch ${batch}\n`)

/** Where any worker finds it. The row first: a row without its blob is swept away one day, a blob without a row never. */
export async function keepArchive({ db, blobs }: Tools, batch: string, path: string): Promise<Digest> {
  const hash = createHash('sha256')
  for await (const chunk of withHead(batch, path)) hash.update(chunk)
  const digest: Digest = `sha256:${hash.digest('hex')}`
  await noteArchive(db, digest)
  await blobs.put(Readable.from(withHead(batch, path), { objectMode: false }), { expect: digest })
  return digest
}

async function* withHead(batch: string, path: string): AsyncGenerator<Buffer> {
  yield headOf(batch)
  yield* createReadStream(path)
}

/** The bytes as they were sent. */
export async function openArchive(blobs: Blobs, batch: string, digest: string): Promise<Readable> {
  if (!isDigest(digest)) throw new Error('A row holds a digest that is none.')
  return Readable.from(withoutHead(await blobs.get(digest), headOf(batch).length), { objectMode: false })
}

async function* withoutHead(stored: Readable, bytes: number): AsyncGenerator<Buffer> {
  let left = bytes
  for await (const chunk of stored) {
    const rest: Buffer = chunk.subarray(left)
    left = Math.max(0, left - chunk.length)
    if (rest.length > 0) yield rest
  }
}

const SWEEP_MAX = 1000

/** Removes archives that no batch needs any more. */
export async function sweepArchives({ db, blobs }: Tools): Promise<void> {
  for (const { digest } of await listUnusedArchives(db, SWEEP_MAX)) {
    await transact(db, async (tx) => {
      if ((await deleteUnusedArchive(tx, digest)) && isDigest(digest)) await blobs.remove(digest)
    })
  }
}
