import { randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import type { Blobs } from './blob.ts'

/** Stores, reads and removes random content, so that concurrent checks do not remove each other's blob. */
export async function roundTrip(blobs: Pick<Blobs, 'put' | 'get' | 'remove'>): Promise<void> {
  const content = randomBytes(64)
  const { digest } = await blobs.put(content)
  try {
    await buffer(await blobs.get(digest))
  } finally {
    await blobs.remove(digest)
  }
}
