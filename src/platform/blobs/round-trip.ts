import { randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import type { Blobs } from './blob.ts'

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
