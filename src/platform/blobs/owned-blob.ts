import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { type Blobs, type Digest, isDigest } from './blob.ts'

/**
 * Before the bytes stands a line that names their owner: no two owners ever have the same blob, so that each may remove
 * his own. Whatever else is kept may be the same bytes by chance, or because somebody sent them again.
 */
const headOf = (owner: string): Buffer => Buffer.from(`${owner}\n`)

/** Under which digest `putOwned` will keep a file. */
export async function ownedDigest(owner: string, path: string): Promise<Digest> {
  const hash = createHash('sha256')
  for await (const chunk of withHead(owner, path)) hash.update(chunk)
  return `sha256:${hash.digest('hex')}`
}

export async function putOwned(blobs: Blobs, owner: string, path: string, expect: Digest): Promise<void> {
  await blobs.put(Readable.from(withHead(owner, path), { objectMode: false }), { expect })
}

async function* withHead(owner: string, path: string): AsyncGenerator<Buffer> {
  yield headOf(owner)
  yield* createReadStream(path)
}

/** The bytes as they were put. */
export async function openOwned(blobs: Blobs, owner: string, digest: string): Promise<Readable> {
  if (!isDigest(digest)) throw new Error('A row holds a digest that is none.')
  return Readable.from(withoutHead(await blobs.get(digest), headOf(owner).length), { objectMode: false })
}

async function* withoutHead(stored: Readable, bytes: number): AsyncGenerator<Buffer> {
  let left = bytes
  for await (const chunk of stored) {
    const rest: Buffer = chunk.subarray(left)
    left = Math.max(0, left - chunk.length)
    if (rest.length > 0) yield rest
  }
}
