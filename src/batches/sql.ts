import { sql } from 'kysely'
import type { Db } from '../platform/db/db.ts'
import { beyond } from '../platform/db/newest-first.ts'
import type { Page } from '../platform/http/page.ts'
import type { BatchError, Evidence, Rejection, TaskContent, Waiting } from './shapes/schema.ts'

const BATCH = [
  'id',
  'repository',
  'state',
  'archive',
  'step',
  'waiting',
  'error',
  'warnings',
  'created_at',
  'started_at',
  'finished_at',
] as const

export type BatchRow = NonNullable<Awaited<ReturnType<typeof findBatch>>>
type State = BatchRow['state']

const OPEN: State[] = ['queued', 'discovering', 'running', 'waiting']
export const isOpen = ({ state }: Pick<BatchRow, 'state'>): boolean => OPEN.includes(state)

export const insertBatch = (tx: Db, row: { id: string; repository: number; archive: string }) =>
  tx.insertInto('batches').values(row).returning(BATCH).executeTakeFirstOrThrow()

export const findBatch = (db: Db, id: string) =>
  db.selectFrom('batches').select(BATCH).where('id', '=', id).executeTakeFirst()

/** Held until the transaction ends. Whoever also takes a job takes the job first. */
export const lockBatch = (tx: Db, id: string) =>
  tx.selectFrom('batches').select(BATCH).where('id', '=', id).forUpdate().executeTakeFirst()

export const listBatchRows = (db: Db, repository: number, page: Page) =>
  db
    .selectFrom('batches')
    .select(BATCH)
    .where('repository', '=', repository)
    .where(beyond('created_at', page))
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(page.limit + 1)
    .execute()

export async function hasOpenBatches(db: Db, repository: number): Promise<boolean> {
  const query = db.selectFrom('batches').select('id').where('repository', '=', repository).where('state', 'in', OPEN)
  return (await query.limit(1).executeTakeFirst()) !== undefined
}

/** Only what is open moves: who was canceled meanwhile stays canceled. */
const moved = (db: Db, id: string) => db.updateTable('batches').where('id', '=', id).where('state', 'in', OPEN)

export const setDiscovering = (db: Db, id: string) =>
  moved(db, id).set({ state: 'discovering', started_at: sql<Date>`coalesce(started_at, now())` }).execute()

/** Its tasks are listed, and the archive is not needed any more. */
export const setListed = (tx: Db, id: string, warnings: string[]) =>
  tx
    .updateTable('batches')
    .set({ step: 'validate', archive: null, warnings: JSON.stringify(warnings) })
    .where('id', '=', id)
    .execute()

export const setRunning = (tx: Db, id: string) =>
  moved(tx, id).set({ state: 'running', waiting: null, started_at: sql<Date>`coalesce(started_at, now())` }).execute()

export const setWaiting = (tx: Db, id: string, waiting: Waiting) =>
  moved(tx, id)
    .set({ state: 'waiting', waiting: JSON.stringify(waiting) })
    .execute()

const ended = (tx: Db, id: string, state: State, error: BatchError | null = null) =>
  moved(tx, id)
    .set({ state, waiting: null, finished_at: sql<Date>`now()`, error: error && JSON.stringify(error) })
    .execute()

export const failBatch = (tx: Db, id: string, error: BatchError) => ended(tx, id, 'failed', error)
export const cancelBatch = (tx: Db, id: string) => ended(tx, id, 'canceled')
export const completeBatch = (tx: Db, id: string) => ended(tx, id, 'completed')

export const reopenBatch = (tx: Db, id: string) =>
  tx
    .updateTable('batches')
    .set({ state: 'queued', error: null, finished_at: null })
    .where('id', '=', id)
    .where('state', 'in', ['failed', 'canceled', 'completed'])
    .execute()

export type NewTask = {
  id: string
  title: string
  difficulty: 'easy' | 'medium' | 'hard' | null
  digest: string | null
  rejection: Rejection | null
  content: TaskContent | null
  evidence: Evidence
}

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

const TASK = [
  'batch',
  'id',
  'state',
  'title',
  'difficulty',
  'digest',
  'rejection',
  'decision',
  'note',
  'decided_at',
] as const

export type TaskRow = Awaited<ReturnType<typeof listTaskRows>>[number]

export const listTaskRows = (db: Db, batch: string) =>
  db.selectFrom('batch_tasks').select(TASK).where('batch', '=', batch).orderBy('id').execute()

export const findTaskRow = (db: Db, batch: string, id: string) =>
  db
    .selectFrom('batch_tasks')
    .select([...TASK, 'content', 'evidence'])
    .where('batch', '=', batch)
    .where('id', '=', id)
    .executeTakeFirst()

export const lockTaskRows = (tx: Db, batch: string, ids: readonly string[]) =>
  tx
    .selectFrom('batch_tasks')
    .select(TASK)
    .where('batch', '=', batch)
    .where('id', 'in', ids)
    .orderBy('id')
    .forUpdate()
    .execute()

export async function listValidating(db: Db, batch: string): Promise<string[]> {
  const query = db.selectFrom('batch_tasks').select('id').where('batch', '=', batch).where('state', '=', 'validating')
  return (await query.orderBy('id').execute()).map(({ id }) => id)
}

type Verdict = { rejection: Rejection | null; evidence: Evidence }

export const settleTask = (tx: Db, batch: string, id: string, { rejection, evidence }: Verdict) =>
  tx
    .updateTable('batch_tasks')
    .set({
      state: rejection ? 'rejected' : 'ready',
      rejection: rejection && JSON.stringify(rejection),
      evidence: JSON.stringify(evidence),
    })
    .where('batch', '=', batch)
    .where('id', '=', id)
    .where('state', '=', 'validating')
    .execute()

/** Those that a sandbox broke, and not their own fault. */
export async function validateAgain(tx: Db, batch: string): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('batch_tasks')
    .set({ state: 'validating', rejection: null })
    .where('batch', '=', batch)
    .where(sql<boolean>`rejection->>'reason' = 'environment_failed'`)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

export type DecisionColumns = { decision: 'approved' | 'declined'; note: string | null }

export const decideTaskRow = (tx: Db, batch: string, id: string, columns: DecisionColumns) =>
  tx
    .updateTable('batch_tasks')
    .set({ ...columns, decided_at: sql<Date>`now()` })
    .where('batch', '=', batch)
    .where('id', '=', id)
    .returning(TASK)
    .executeTakeFirstOrThrow()

export type Tally = Awaited<ReturnType<typeof listTallies>>[number]

/** How many tasks there are of each sort, for several batches at once. */
export const listTallies = (db: Db, batches: readonly string[]) =>
  db
    .selectFrom('batch_tasks')
    .select(['batch', 'state', 'difficulty', 'decision'])
    .select(sql<string | null>`rejection->>'reason'`.as('reason'))
    .select(sql<number>`count(*)::int`.as('count'))
    .where('batch', 'in', [...batches, NO_BATCH])
    .groupBy(['batch', 'state', 'difficulty', 'decision', 'reason'])
    .execute()

/** An empty list is no SQL. */
const NO_BATCH = '00000000-0000-0000-0000-000000000000'

export const listApprovedRows = (db: Db, repository: number) =>
  db
    .selectFrom('batch_tasks')
    .innerJoin('batches', 'batches.id', 'batch_tasks.batch')
    .innerJoin('task_contents', 'task_contents.digest', 'batch_tasks.digest')
    .select(['batch_tasks.batch', 'batch_tasks.id', 'batch_tasks.title', 'batch_tasks.difficulty'])
    .select(['task_contents.digest', 'task_contents.archive'])
    .where('batches.repository', '=', repository)
    .where('batch_tasks.decision', '=', 'approved')
    .orderBy('batches.created_at')
    .orderBy('batch_tasks.batch')
    .orderBy('batch_tasks.id')
    .execute()

export const listStandings = (db: Db, repository: number) =>
  db
    .selectFrom('batch_tasks')
    .innerJoin('batches', 'batches.id', 'batch_tasks.batch')
    .select(['batch_tasks.batch', 'batch_tasks.id', 'batch_tasks.state'])
    .where('batches.repository', '=', repository)
    .execute()

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
