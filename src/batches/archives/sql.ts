import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'

export const noteArchive = (db: Db, digest: string) =>
  db
    .insertInto('batch_archives')
    .values({ digest })
    .onConflict((conflict) => conflict.column('digest').doUpdateSet({ used_at: sql<Date>`now()` }))
    .execute()

const UNUSED = sql<boolean>`used_at < now() - interval '1 day'
  and not exists (select from batches where batches.archive = batch_archives.digest)`

export const listUnusedArchives = (db: Db, limit: number) =>
  db.selectFrom('batch_archives').select('digest').where(UNUSED).limit(limit).execute()

/** Locked until the transaction ends: whoever sends the same again waits, and then stores it. */
export async function deleteUnusedArchive(tx: Db, digest: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('batch_archives')
    .where('digest', '=', digest)
    .where(UNUSED)
    .executeTakeFirstOrThrow()
  return numDeletedRows > 0n
}
