import type { Readable } from 'node:stream'
import { z } from 'zod'

/** A blob is known by what it contains. Lower-case hex, so that one content has one name. */
export type Digest = `sha256:${string}`

export type PutOptions = { expect?: Digest; bytesMax?: number }

export type Blobs = {
  /** Durable when it returns. On any error nothing is stored; the same content twice is stored once. */
  put: (content: Readable | Uint8Array, options?: PutOptions) => Promise<{ digest: Digest; bytes: number }>
  /** The stream ends with BlobDamaged when the stored content is not what it was: use nothing before it has ended. */
  get: (digest: Digest) => Promise<Readable>
  find: (digest: Digest) => Promise<{ bytes: number } | undefined>
  remove: (digest: Digest) => Promise<void>
  /** Writes, reads back and removes something small; the error says what to do. */
  check: () => Promise<void>
}

const DIGEST = /^sha256:[0-9a-f]{64}$/

export const isDigest = (value: unknown): value is Digest => typeof value === 'string' && DIGEST.test(value)
export const Digest = z.custom<Digest>(isDigest, 'must be sha256: and 64 hexadecimal digits')

/** The only way from a digest to a path or a key: types do not exist at run time, and `..` must never get there. */
export function hexOf(digest: Digest): string {
  if (!isDigest(digest)) throw new Error('Not a digest: expected sha256: and 64 hexadecimal digits.')
  return digest.slice('sha256:'.length)
}

export class BlobMissing extends Error {
  override name = 'BlobMissing'

  constructor(digest: Digest) {
    super(`There is no blob ${digest}.`)
  }
}

export class BlobDamaged extends Error {
  override name = 'BlobDamaged'

  constructor(digest: Digest) {
    super(`The stored content of blob ${digest} has changed. Store it again, or restore it from a backup.`)
  }
}

/** The content is not what the caller said it would be. */
export class BlobRefused extends Error {
  override name = 'BlobRefused'
  reason: 'too_large' | 'digest_mismatch'

  constructor(reason: BlobRefused['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}
