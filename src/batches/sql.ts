import { sql } from 'kysely'
import { type Db, pageNewestFirst } from '../platform/db/db.ts'
import type { Page } from '../platform/http/page.ts'
import type { NewTask } from '../taskgen/assembly/screen-folder.ts'
import type { TaskKey } from '../taskgen/pipeline/batch-state.ts'
import { type Difficulty, OPEN_STATES, type Rejection, type TaskEvidence } from '../taskgen/schema.ts'

type NewImport = { id: string; repository: number; archive: string; archive_bytes: number }

export const insertBatch = (tx: Db, row: NewImport) =>
  tx.insertInto('batches').values(row).returningAll().executeTakeFirstOrThrow()

/** Sums up the bytes that the imports of a workspace take: stored archives, and the files of their tasks. */
export async function sumImportedBytes(db: Db, workspaceId: string): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    with imports as (
      select batches.* from batches join repositories on repositories.key = batches.repository
      where repositories.workspace_id = ${workspaceId} and batches.generation is null
    )
    select (
      -- An archive that its batch has released is deleted a day after it was stored.
      (select coalesce(sum(archive_bytes), 0) from imports
        where archive is not null or created_at > now() - interval '1 day')
      + (select coalesce(sum(bytes), 0) from task_contents where digest in (
        select batch_tasks.digest from batch_tasks join imports on imports.id = batch_tasks.batch))
    )::int8 as bytes`.execute(db)
  return rows[0]?.bytes ?? 0
}

type NewGeneratedBatch = {
  id: string
  repository: number
  easy: number
  medium: number
  hard: number
  again: boolean
  budget_micros: number | null
}

export const insertGenerated = (tx: Db, row: NewGeneratedBatch, generation: unknown, warnings: readonly string[]) =>
  tx
    .insertInto('batches')
    .values({ ...row, step: 'discover', generation: JSON.stringify(generation), warnings: JSON.stringify(warnings) })
    .returningAll()
    .executeTakeFirstOrThrow()

export const listBatchRows = (db: Db, repository: number, page: Page) =>
  db
    .selectFrom('batches')
    .selectAll()
    .where('repository', '=', repository)
    .$call(pageNewestFirst('created_at', page))
    .execute()

export async function hasOpenBatches(db: Db, repository: number): Promise<boolean> {
  const query = db
    .selectFrom('batches')
    .select('id')
    .where('repository', '=', repository)
    .where('state', 'in', OPEN_STATES)
  return (await query.limit(1).executeTakeFirst()) !== undefined
}

/** Marks the tasks as listed and releases the archive. */
export const setListed = (tx: Db, id: string, warnings: string[]) =>
  tx
    .updateTable('batches')
    .set({ step: 'validate', archive: null, warnings: JSON.stringify(warnings) })
    .where('id', '=', id)
    .execute()

/** Releases archives of batches that stopped at least this many days ago. */
export const dropArchives = (db: Db, days: number) =>
  sql`
    update batches set archive = null where archive is not null and state in ('failed', 'canceled')
      and finished_at < now() - make_interval(days => ${days})`.execute(db)

export const insertTasks = (tx: Db, batch: string, tasks: readonly NewTask[]) =>
  tx
    .insertInto('batch_tasks')
    .values(
      tasks.map(({ rejection, content, evidence, ...task }) => ({
        ...task,
        batch,
        state: rejection ? ('rejected' as const) : ('validating' as const),
        rejection: rejection && JSON.stringify(rejection),
        content: content && JSON.stringify(content),
        evidence: JSON.stringify(evidence),
      })),
    )
    .execute()

const TASK_COLUMNS = [
  'batch',
  'id',
  'state',
  'stage',
  'title',
  'difficulty',
  'requested_difficulty',
  'pull_request',
  'digest',
  'rejection',
  'deferral',
  'concerns',
  'spent_micros',
  'decision',
  'note',
  'decided_at',
] as const

export type TaskRow = Awaited<ReturnType<typeof listTaskRows>>[number]

export const listTaskRows = (db: Db, batch: string) =>
  db.selectFrom('batch_tasks').select(TASK_COLUMNS).where('batch', '=', batch).orderBy('id').execute()

export const findTaskRow = (db: Db, batch: string, id: string) =>
  db
    .selectFrom('batch_tasks')
    .select([...TASK_COLUMNS, 'content', 'evidence', 'candidate'])
    .where('batch', '=', batch)
    .where('id', '=', id)
    .executeTakeFirst()

export const lockTaskRows = (tx: Db, batch: string, ids: readonly string[]) =>
  tx
    .selectFrom('batch_tasks')
    .select(TASK_COLUMNS)
    .where('batch', '=', batch)
    .where('id', 'in', ids)
    .orderBy('id')
    .forUpdate()
    .execute()

export async function listValidating(db: Db, batch: string): Promise<string[]> {
  const query = db.selectFrom('batch_tasks').select('id').where('batch', '=', batch).where('state', '=', 'validating')
  return (await query.orderBy('id').execute()).map(({ id }) => id)
}

const updateTask = (tx: Db, { batch, task }: TaskKey) =>
  tx.updateTable('batch_tasks').where('batch', '=', batch).where('id', '=', task)

type TaskVerdict = { rejection: Rejection | null; evidence: TaskEvidence; concerns: string[] }

export const settleTask = (tx: Db, key: TaskKey, { rejection, evidence, concerns }: TaskVerdict) =>
  updateTask(tx, key)
    .set({
      state: rejection ? 'rejected' : 'ready',
      rejection: rejection && JSON.stringify(rejection),
      evidence: JSON.stringify(evidence),
      concerns: JSON.stringify(concerns),
    })
    .where('state', '=', 'validating')
    .execute()

type DecisionColumns = { decision: 'approved' | 'declined'; note: string | null }

export const decideTaskRow = (tx: Db, key: TaskKey, columns: DecisionColumns) =>
  updateTask(tx, key)
    .set({ ...columns, decided_at: sql<Date>`now()` })
    .returning(TASK_COLUMNS)
    .executeTakeFirstOrThrow()

export type TaskTally = Awaited<ReturnType<typeof listTallies>>[number]

/** Counts tasks and sums their costs by state, for several batches in one query. */
export const listTallies = (db: Db, batches: readonly string[]) =>
  db
    .selectFrom('batch_tasks')
    .select(['batch', 'state', 'stage', 'decision'])
    .select(sql<Difficulty | null>`coalesce(requested_difficulty, difficulty)`.as('bucket'))
    .select(sql<string | null>`rejection->>'reason'`.as('reason'))
    .select(sql<boolean>`deferral is not null`.as('isDeferred'))
    .select(sql<number>`count(*)::int`.as('count'))
    .select(sql<number>`sum(spent_micros)::bigint`.as('spentMicros'))
    .where('batch', 'in', [...batches, NO_BATCH])
    .groupBy(['batch', 'state', 'stage', 'decision', 'bucket', 'reason', 'isDeferred'])
    .execute()

/** Matches no batch. Added to the list because `in ()` is a syntax error in SQL. */
const NO_BATCH = '00000000-0000-0000-0000-000000000000'

export const listApprovedRows = (db: Db, repository: number) =>
  db
    .selectFrom('batch_tasks')
    .innerJoin('batches', 'batches.id', 'batch_tasks.batch')
    .innerJoin('task_contents', 'task_contents.digest', 'batch_tasks.digest')
    .select(['batch_tasks.batch', 'batch_tasks.id', 'batch_tasks.title', 'batch_tasks.difficulty'])
    .select('batch_tasks.pull_request')
    .select(['task_contents.digest', 'task_contents.archive'])
    .where('batches.repository', '=', repository)
    .where('batch_tasks.decision', '=', 'approved')
    .orderBy('batches.created_at')
    .orderBy('batch_tasks.batch')
    .orderBy('batch_tasks.id')
    .execute()

/** Lists the paths of the files of approved tasks with these digests. Tasks with the same content are listed once. */
export async function listApprovedPaths(db: Db, repository: number, digests: readonly string[]) {
  const { rows } = await sql<{ paths: string[] | null }>`
    select distinct on (batch_tasks.digest) jsonb_path_query_array(batch_tasks.content, '$.files[*].path') as paths
    from batch_tasks join batches on batches.id = batch_tasks.batch
    where batches.repository = ${repository} and batch_tasks.decision = 'approved'
      and batch_tasks.digest = any(${[...digests]}::text[])
    order by batch_tasks.digest`.execute(db)
  return rows
}

export const listTaskStateRows = (db: Db, repository: number) =>
  db
    .selectFrom('batch_tasks')
    .innerJoin('batches', 'batches.id', 'batch_tasks.batch')
    .select(['batch_tasks.batch', 'batch_tasks.id', 'batch_tasks.state'])
    .where('batches.repository', '=', repository)
    .execute()

export const upsertArchive = (db: Db, digest: string) =>
  db
    .insertInto('batch_archives')
    .values({ digest })
    .onConflict((conflict) => conflict.column('digest').doUpdateSet({ used_at: sql<Date>`now()` }))
    .execute()

const IS_UNUSED = sql<boolean>`used_at < now() - interval '1 day'
  and not exists (select from batches where batches.archive = batch_archives.digest)`

export const listUnusedArchives = (db: Db, limit: number) =>
  db.selectFrom('batch_archives').select('digest').where(IS_UNUSED).limit(limit).execute()

/** Deletes an archive if it is still unused. A concurrent upload of the same archive waits, then stores it again. */
export async function deleteUnusedArchive(tx: Db, digest: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('batch_archives')
    .where('digest', '=', digest)
    .where(IS_UNUSED)
    .executeTakeFirstOrThrow()
  return numDeletedRows > 0n
}

export const setBudget = (tx: Db, id: string, micros: number) =>
  tx.updateTable('batches').set({ budget_micros: micros }).where('id', '=', id).execute()

/** Retries tasks that failed because of the infrastructure. A generated task continues at the stage that failed. */
export async function retryBrokenTasks(tx: Db, batch: string): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('batch_tasks')
    .set({ state: sql`case when stage is null then 'validating' else 'making' end`, rejection: null })
    .where('batch', '=', batch)
    .where(sql<boolean>`rejection->>'reason' in ('environment_failed', 'internal_error')`)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

/** Makes deferred tasks eligible immediately. */
export const endDeferrals = (tx: Db, batch: string) =>
  tx.updateTable('batch_tasks').set({ deferral: null }).where('batch', '=', batch).execute()
