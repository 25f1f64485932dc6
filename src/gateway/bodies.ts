import type { Readable } from 'node:stream'
import { type Blobs, isDigest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { findBodies } from './sql.ts'

/** What was said in a call of this workspace, if it was kept and is not gone yet. */
export async function openBodies(
  { db, blobs }: { db: Db; blobs: Blobs },
  workspaceId: string,
  callId: string,
): Promise<{ bytes: number; content: Readable }> {
  const digest = await findBodies(db, workspaceId, callId)
  const found = isDigest(digest) ? await blobs.find(digest) : undefined
  if (!isDigest(digest) || !found) throw new Problem(notFound, 'Of this call nothing is kept.')
  return { bytes: found.bytes, content: await blobs.get(digest) }
}
