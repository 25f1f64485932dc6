import { sql } from 'kysely'
import type { StoredTask } from '../harbor/registries/task-store.ts'
import { type Digest, isDigest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'

/** Those that are known, and wanted from now on: they are not swept away under whoever asked. */
export async function useContents(db: Db, digests: readonly string[]): Promise<StoredTask[]> {
  if (digests.length === 0) return []
  const rows = await db
    .updateTable('task_contents')
    .set({ used_at: sql<Date>`now()` })
    .where('digest', 'in', digests)
    .returning(['digest', 'archive', 'bytes', 'memory_mb'])
    .execute()
  return rows.map(({ digest, archive, bytes, memory_mb: memoryMb }) => ({
    ...{ digest: digestOf(digest), archive: digestOf(archive), bytes, memoryMb },
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

const UNUSED = sql<boolean>`used_at < now() - interval '1 day'
  and not exists (select from benchmark_tasks where benchmark_tasks.digest = task_contents.digest)
  and not exists (select from comparison_tasks where comparison_tasks.digest = task_contents.digest)
  and not exists (select from batch_tasks where batch_tasks.digest = task_contents.digest)
  and not exists (select from public_tasks where public_tasks.digest = task_contents.digest)`

export const listUnusedContents = async (db: Db, limit: number): Promise<Digest[]> => {
  const rows = await db.selectFrom('task_contents').select('digest').where(UNUSED).limit(limit).execute()
  return rows.map((row) => digestOf(row.digest))
}

/** Locked until the transaction ends: whoever stores the same again waits, and then stores it. */
export async function deleteUnusedContent(tx: Db, digest: Digest): Promise<Digest | undefined> {
  const row = await tx
    .deleteFrom('task_contents')
    .where('digest', '=', digest)
    .where(UNUSED)
    .returning('archive')
    .executeTakeFirst()
  return row && digestOf(row.archive)
}

function digestOf(text: string): Digest {
  if (isDigest(text)) return text
  throw new Error('A row holds a digest that is none.')
}
