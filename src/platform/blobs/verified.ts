import { createHash } from 'node:crypto'
import { pipeline, type Readable, Transform } from 'node:stream'
import { BlobDamaged, type Digest } from './blob.ts'

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
