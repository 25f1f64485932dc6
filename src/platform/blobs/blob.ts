import type { Readable } from 'node:stream'
import { z } from 'zod'

/** Identifies a blob by its content. Lower-case hex, so that each content has one name. */
export type Digest = `sha256:${string}`

export type PutOptions = { expect?: Digest; bytesMax?: number }

/** Part of a blob: at least one byte, within the blob. */
type BlobPart = { offset: number; bytes: number }

export type Blobs = {
  /** Stores content durably. On any error nothing is stored; the same content is stored once. */
  put: (content: Readable | Uint8Array, options?: PutOptions) => Promise<{ digest: Digest; bytes: number }>
  /** Fails with BlobDamaged at the end of the stream if the stored content has changed: use nothing before the end. */
  get: (digest: Digest) => Promise<Readable>
  /** Reads a part without the rest. A part cannot be compared with the digest, so that damage is not noticed. */
  getPart: (digest: Digest, part: BlobPart) => Promise<Readable>
  find: (digest: Digest) => Promise<{ bytes: number } | undefined>
  remove: (digest: Digest) => Promise<void>
  /** Writes, reads back and removes a small blob; the error contains the fix. */
  check: () => Promise<void>
}

const DIGEST = /^sha256:[0-9a-f]{64}$/

export const isDigest = (value: unknown): value is Digest => typeof value === 'string' && DIGEST.test(value)
export const Digest = z.custom<Digest>(isDigest, 'must be sha256: and 64 hexadecimal digits')

/** Returns the hex part of a digest. Every path and key goes through this check, so that `..` can never get there. */
export function hexOf(digest: Digest): string {
  if (!isDigest(digest)) throw new Error('Not a digest: expected sha256: and 64 hexadecimal digits.')
  return digest.slice('sha256:'.length)
}

export class BlobMissing extends Error {
  override name = 'BlobMissing'

  constructor(digest: Digest) {
    super(`Blob ${digest} not found.`)
  }
}

export class BlobDamaged extends Error {
  override name = 'BlobDamaged'

  constructor(digest: Digest) {
    super(`The stored content of blob ${digest} has changed. Store it again, or restore it from a backup.`)
  }
}

/** The content does not match the size or digest that the caller expected. */
export class BlobRefused extends Error {
  override name = 'BlobRefused'
  reason: 'too_large' | 'digest_mismatch'

  constructor(reason: BlobRefused['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}
