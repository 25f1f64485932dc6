import { randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import type { Blobs } from './blob.ts'

/** New content each time, so that two processes that check at once do not remove each other's. */
export async function roundTrip(blobs: Pick<Blobs, 'put' | 'get' | 'remove'>): Promise<void> {
  const content = randomBytes(64)
  const { digest } = await blobs.put(content)
  try {
    await buffer(await blobs.get(digest))
  } finally {
    await blobs.remove(digest)
  }
}
