import { createHash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline, Readable, Transform } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { z } from 'zod'

/** Identifies a blob by its content. Lower-case hex, so that each content has one name. */
export type Digest = `sha256:${string}`

export type PutOptions = { expect?: Digest; bytesMax?: number }

/** Part of a blob: at least one byte, within the blob. */
type BlobPart = { offset: number; bytes: number }

export type Blobs = {
  /** Stores content durably. On any error nothing is stored; the same content is stored once. */
  put: (content: Readable | Uint8Array, options?: PutOptions) => Promise<{ digest: Digest; bytes: number }>
  /**
   * Opens a blob. The stream fails with BlobDamaged at its end if the stored content has changed, so the content must be
   * used only after the end.
   */
  get: (digest: Digest) => Promise<Readable>
  /** Reads a part without the rest. Damage is not noticed, because a part cannot be compared with the digest. */
  getPart: (digest: Digest, part: BlobPart) => Promise<Readable>
  find: (digest: Digest) => Promise<{ bytes: number } | undefined>
  remove: (digest: Digest) => Promise<void>
  /** Writes, reads back and removes a small blob; the error contains the fix. */
  check: () => Promise<void>
}

const DIGEST = /^sha256:[0-9a-f]{64}$/

export const isDigest = (value: unknown): value is Digest => typeof value === 'string' && DIGEST.test(value)
export const Digest = z.custom<Digest>(isDigest, 'must be sha256: and 64 hexadecimal digits')

/** Returns the hex part of a digest. Throws if it is malformed, so that a path built from it cannot contain `..`. */
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

/** Ignores the error of a missing blob and rethrows all others. */
export function ignoreMissingBlob(error: unknown): void {
  if (!(error instanceof BlobMissing)) throw error
}

export class BlobDamaged extends Error {
  override name = 'BlobDamaged'

  constructor(digest: Digest) {
    super(`The stored content of blob ${digest} has changed. Store it again, or restore it from a backup.`)
  }
}

/** Thrown when content does not have the size or digest that the caller expected. */
export class BlobRefused extends Error {
  override name = 'BlobRefused'
  reason: 'too_large' | 'digest_mismatch'

  constructor(reason: BlobRefused['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

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
  pipeline(source, check, () => undefined) // An error destroys `check`, through which it reaches the reader.
  return check
}

/**
 * Checks that a blob store works: stores, reads and removes a blob. Its content is random, so that concurrent checks do
 * not remove each other's blob.
 */
export async function checkRoundTrip(blobs: Pick<Blobs, 'put' | 'get' | 'remove'>): Promise<void> {
  const content = randomBytes(64)
  const { digest } = await blobs.put(content)
  try {
    await buffer(await blobs.get(digest))
  } finally {
    await blobs.remove(digest)
  }
}

/**
 * Returns the line that is stored before the bytes of an owner. With this line no two owners share a blob, so that a blob
 * can be removed with its owner, even if another owner has the same bytes.
 */
const buildOwnerLine = (owner: string): Buffer => Buffer.from(`${owner}\n`)

/** Returns the digest under which `putOwned` stores a file. */
export async function hashOwned(owner: string, path: string): Promise<Digest> {
  const hash = createHash('sha256')
  for await (const chunk of readWithOwnerLine(owner, path)) hash.update(chunk)
  return `sha256:${hash.digest('hex')}`
}

/** Stores a file under its owner's line. */
export async function putOwned(blobs: Blobs, owner: string, path: string, expect: Digest): Promise<void> {
  await blobs.put(Readable.from(readWithOwnerLine(owner, path), { objectMode: false }), { expect })
}

async function* readWithOwnerLine(owner: string, path: string): AsyncGenerator<Buffer> {
  yield buildOwnerLine(owner)
  yield* createReadStream(path)
}

/** Opens the bytes without the owner's line. */
export async function openOwned(blobs: Blobs, owner: string, digest: string): Promise<Readable> {
  if (!isDigest(digest)) throw new Error('Invalid digest in database row')
  return Readable.from(dropFirstBytes(await blobs.get(digest), buildOwnerLine(owner).length), { objectMode: false })
}

async function* dropFirstBytes(stored: Readable, bytes: number): AsyncGenerator<Buffer> {
  let remaining = bytes
  for await (const chunk of stored) {
    const rest: Buffer = chunk.subarray(remaining)
    remaining = Math.max(0, remaining - chunk.length)
    if (rest.length > 0) yield rest
  }
}
