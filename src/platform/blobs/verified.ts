import { createHash, randomBytes } from 'node:crypto'
import { pipeline, type Readable, Transform } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { BlobDamaged, type Blobs, type Digest } from './blob.ts'

/** Passes content through and fails at the end if it does not match the digest. */
export function verifyDigest(source: Readable, digest: Digest): Readable {
  const hash = createHash('sha256')
  const check = new Transform({
    transform(chunk, _, done) {
      hash.update(chunk)
      done(null, chunk)
    },
    flush(done) {
      done(`sha256:${hash.digest('hex')}` === digest ? null : new BlobDamaged(digest))
    },
  })
  pipeline(source, check, () => undefined) // an error reaches the reader through `check`, which it destroys
  return check
}

/**
 * Checks that a blob store works: stores, reads and removes a blob. Its content is random, so that concurrent checks do
 * not remove each other's blob.
 */
export async function roundTrip(blobs: Pick<Blobs, 'put' | 'get' | 'remove'>): Promise<void> {
  const content = randomBytes(64)
  const { digest } = await blobs.put(content)
  try {
    await buffer(await blobs.get(digest))
  } finally {
    await blobs.remove(digest)
  }
}
