import { BlobMissing, type Blobs, isDigest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { forgetBodies, listOldBodies } from './sql.ts'

const AT_ONCE = 500

/** What was said in calls goes with the artifacts of trials. The blob first: a row without one is harmless. */
export async function sweepBodies({ db, blobs }: { db: Db; blobs: Blobs }, days: number): Promise<void> {
  for (;;) {
    const old = await listOldBodies(db, days, AT_ONCE)
    for (const { id, bodies } of old) {
      if (isDigest(bodies)) await blobs.remove(bodies).catch(ignoreMissing)
      await forgetBodies(db, id)
    }
    if (old.length < AT_ONCE) return
  }
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof BlobMissing)) throw error
}
