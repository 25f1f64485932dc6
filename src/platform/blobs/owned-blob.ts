import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { type Blobs, type Digest, isDigest } from './blob.ts'

/**
 * Prefixes the bytes with a line that names their owner. No two owners share a blob, so each can be removed with its
 * owner, even if the same bytes are stored elsewhere.
 */
const buildHeader = (owner: string): Buffer => Buffer.from(`${owner}\n`)

/** Returns the digest under which `putOwned` stores a file. */
export async function hashOwned(owner: string, path: string): Promise<Digest> {
  const hash = createHash('sha256')
  for await (const chunk of withHeader(owner, path)) hash.update(chunk)
  return `sha256:${hash.digest('hex')}`
}

export async function putOwned(blobs: Blobs, owner: string, path: string, expect: Digest): Promise<void> {
  await blobs.put(Readable.from(withHeader(owner, path), { objectMode: false }), { expect })
}

async function* withHeader(owner: string, path: string): AsyncGenerator<Buffer> {
  yield buildHeader(owner)
  yield* createReadStream(path)
}

/** Opens the bytes without the owner's line. */
export async function openOwned(blobs: Blobs, owner: string, digest: string): Promise<Readable> {
  if (!isDigest(digest)) throw new Error('Invalid digest in database row')
  return Readable.from(withoutHeader(await blobs.get(digest), buildHeader(owner).length), { objectMode: false })
}

async function* withoutHeader(stored: Readable, bytes: number): AsyncGenerator<Buffer> {
  let remaining = bytes
  for await (const chunk of stored) {
    const rest: Buffer = chunk.subarray(remaining)
    remaining = Math.max(0, remaining - chunk.length)
    if (rest.length > 0) yield rest
  }
}
