import { sql } from 'kysely'
import type { StoredTask } from '../harbor/registries/task-store.ts'
import { type Digest, isDigest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'

/** Finds contents and marks them as used, which protects them from the sweep. */
export async function touchContents(db: Db, digests: readonly string[]): Promise<StoredTask[]> {
  if (digests.length === 0) return []
  const rows = await db
    .updateTable('task_contents')
    .set({ used_at: sql<Date>`now()` })
    .where('digest', 'in', digests)
    .returning(['digest', 'archive', 'bytes', 'memory_mb'])
    .execute()
  return rows.map(({ digest, archive, bytes, memory_mb: memoryMb }) => ({
    digest: parseDigest(digest),
    archive: parseDigest(archive),
    bytes,
    memoryMb,
  }))
}

export const insertContent = (db: Db, { digest, memoryMb, ...packed }: StoredTask) =>
  db
    .insertInto('task_contents')
    .values({ digest, memory_mb: memoryMb, ...packed })
    .onConflict((conflict) =>
      conflict.column('digest').doUpdateSet({ memory_mb: memoryMb, ...packed, used_at: sql<Date>`now()` }),
    )
    .execute()

/** True for content that nothing refers to and that was not used for a day. */
const UNUSED = sql<boolean>`used_at < now() - interval '1 day'
  and not exists (select from benchmark_tasks where benchmark_tasks.digest = task_contents.digest)
  and not exists (select from comparison_tasks where comparison_tasks.digest = task_contents.digest)
  and not exists (select from batch_tasks where batch_tasks.digest = task_contents.digest)
  and not exists (select from public_tasks where public_tasks.digest = task_contents.digest)`

export const listUnusedContents = async (db: Db, limit: number): Promise<Digest[]> => {
  const rows = await db.selectFrom('task_contents').select('digest').where(UNUSED).limit(limit).execute()
  return rows.map((row) => parseDigest(row.digest))
}

/** Deletes unused content and returns the digest of its archive. Locks the row, so that a concurrent insert of the same content waits and then succeeds. */
export async function deleteUnusedContent(tx: Db, digest: Digest): Promise<Digest | undefined> {
  const row = await tx
    .deleteFrom('task_contents')
    .where('digest', '=', digest)
    .where(UNUSED)
    .returning('archive')
    .executeTakeFirst()
  return row && parseDigest(row.archive)
}

function parseDigest(text: string): Digest {
  if (isDigest(text)) return text
  throw new Error('Invalid digest in database row')
}
