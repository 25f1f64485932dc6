import { sql } from 'kysely'
import type { Db } from '../platform/db/db.ts'
import { newestFirst } from '../platform/db/newest-first.ts'
import type { Page } from '../platform/http/page.ts'
import type { Difficulty } from './generation/schema.ts'
import {
  type BatchError,
  type Evidence,
  OPEN_STATES,
  type Rejection,
  type TaskContent,
  type TaskFiles,
  type TaskPullRequest,
  type Waiting,
} from './shapes/schema.ts'
import { type CandidateFacts, type Json, JUDGING, type StageName } from './stages/make.ts'

export type BatchRow = NonNullable<Awaited<ReturnType<typeof findBatch>>>

export const insertBatch = (tx: Db, row: { id: string; repository: number; archive: string }) =>
  tx.insertInto('batches').values(row).returningAll().executeTakeFirstOrThrow()

type NewGenerated = {
  id: string
  repository: number
  easy: number
  medium: number
  hard: number
  again: boolean
  budget_micros: number | null
}

export const insertGenerated = (tx: Db, row: NewGenerated, generation: unknown, warnings: readonly string[]) =>
  tx
    .insertInto('batches')
    .values({ ...row, step: 'discover', generation: JSON.stringify(generation), warnings: JSON.stringify(warnings) })
    .returningAll()
    .executeTakeFirstOrThrow()

/** Stored credentials among these cannot be deleted until they are released. */
export const holdCredentials = (tx: Db, batch: string, ids: readonly string[]) =>
  sql`
    insert into batch_credentials (batch, credential_id)
    select ${batch}, id from credentials where id = any(${ids}::uuid[])
    on conflict do nothing`.execute(tx)

export const setBudget = (tx: Db, id: string, micros: number) =>
  tx.updateTable('batches').set({ budget_micros: micros }).where('id', '=', id).execute()

export const findBatch = (db: Db, id: string) =>
  db.selectFrom('batches').selectAll().where('id', '=', id).executeTakeFirst()

/** Held until the transaction ends. Whoever also takes a job takes the job first. */
export const lockBatch = (tx: Db, id: string) =>
  tx.selectFrom('batches').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()

export const listBatchRows = (db: Db, repository: number, page: Page) =>
  db
    .selectFrom('batches')
    .selectAll()
    .where('repository', '=', repository)
    .$call(newestFirst('created_at', page))
    .execute()

export async function hasOpenBatches(db: Db, repository: number): Promise<boolean> {
  const query = db
    .selectFrom('batches')
    .select('id')
    .where('repository', '=', repository)
    .where('state', 'in', OPEN_STATES)
  return (await query.limit(1).executeTakeFirst()) !== undefined
}

/** Only what is open moves: who was canceled meanwhile stays canceled. */
const moved = (db: Db, id: string) => db.updateTable('batches').where('id', '=', id).where('state', 'in', OPEN_STATES)

export const beginDiscovery = (db: Db, id: string) =>
  moved(db, id).set({ state: 'discovering', started_at: sql<Date>`coalesce(started_at, now())` }).execute()

/** Its tasks are listed, and the archive is not needed any more. */
export const setListed = (tx: Db, id: string, warnings: string[]) =>
  tx
    .updateTable('batches')
    .set({ step: 'validate', archive: null, warnings: JSON.stringify(warnings) })
    .where('id', '=', id)
    .execute()

export const goOn = (tx: Db, id: string) =>
  moved(tx, id).set({ state: 'running', waiting: null, started_at: sql<Date>`coalesce(started_at, now())` }).execute()

export const wait = (tx: Db, id: string, waiting: Waiting) =>
  moved(tx, id)
    .set({ state: 'waiting', waiting: JSON.stringify(waiting) })
    .execute()

/** Answers its repository. Undefined: it had ended before. What would only fail again lets its archive go. */
async function ended(
  tx: Db,
  id: string,
  state: BatchRow['state'],
  error: BatchError | null = null,
): Promise<number | undefined> {
  const row = await moved(tx, id)
    .set({ state, waiting: null, finished_at: sql<Date>`now()`, error: error && JSON.stringify(error) })
    .$if(error?.retryable === false, (query) => query.set({ archive: null }))
    .returning('repository')
    .executeTakeFirst()
  await tx.deleteFrom('batch_credentials').where('batch', '=', id).execute()
  return row?.repository
}

export const failBatch = (tx: Db, id: string, error: BatchError) => ended(tx, id, 'failed', error)
export const cancelBatch = (tx: Db, id: string) => ended(tx, id, 'canceled')
export const completeBatch = (tx: Db, id: string) => ended(tx, id, 'completed')

/** Of batches that stopped so many days ago. */
export const dropArchives = (db: Db, days: number) =>
  sql`
    update batches set archive = null where archive is not null and state in ('failed', 'canceled')
      and finished_at < now() - make_interval(days => ${days})`.execute(db)

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
  difficulty: Difficulty | null
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
  ...(['batch', 'id', 'state', 'stage', 'title', 'difficulty', 'requested_difficulty', 'pull_request'] as const),
  ...(['digest', 'rejection', 'deferral', 'concerns', 'spent_micros', 'decision', 'note', 'decided_at'] as const),
] as const

export type TaskRow = Awaited<ReturnType<typeof listTaskRows>>[number]

export const listTaskRows = (db: Db, batch: string) =>
  db.selectFrom('batch_tasks').select(TASK).where('batch', '=', batch).orderBy('id').execute()

export const findTaskRow = (db: Db, batch: string, id: string) =>
  db
    .selectFrom('batch_tasks')
    .select([...TASK, 'content', 'evidence', 'candidate'])
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

export type TaskKey = { batch: string; task: string }

const changed = (tx: Db, { batch, task }: TaskKey) =>
  tx.updateTable('batch_tasks').where('batch', '=', batch).where('id', '=', task)

type Verdict = { rejection: Rejection | null; evidence: Evidence; concerns: string[] }

export const settleTask = (tx: Db, key: TaskKey, { rejection, evidence, concerns }: Verdict) =>
  changed(tx, key)
    .set({
      state: rejection ? 'rejected' : 'ready',
      rejection: rejection && JSON.stringify(rejection),
      evidence: JSON.stringify(evidence),
      concerns: JSON.stringify(concerns),
    })
    .where('state', '=', 'validating')
    .execute()

/**
 * With other files, and nothing that was decided or found out of the old ones. Of a generated task the instruction goes
 * back to where it is judged; what stages before that found out stays.
 */
export async function sendBack(tx: Db, key: TaskKey, files: TaskFiles, instruction: string | null): Promise<void> {
  await changed(tx, key)
    .set({
      ...{ ...columnsOf(files), instruction },
      ...(instruction === null ? { state: 'validating', stage: null } : { state: 'making', stage: JUDGING }),
      ...{ rejection: null, deferral: null, concerns: '[]', decision: null, note: null, decided_at: null },
    })
    .execute()
}

const columnsOf = ({ digest, content, evidence }: TaskFiles) => ({
  ...{ digest, content: JSON.stringify(content), evidence: JSON.stringify(evidence) },
})

/** Those that a sandbox broke, and not their own fault. One that was being made goes on at the stage that broke. */
export async function tryAgain(tx: Db, batch: string): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('batch_tasks')
    .set({ state: sql`case when stage is null then 'validating' else 'making' end`, rejection: null })
    .where('batch', '=', batch)
    .where(sql<boolean>`rejection->>'reason' in ('environment_failed', 'internal_error')`)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

type DecisionColumns = { decision: 'approved' | 'declined'; note: string | null }

export const decideTaskRow = (tx: Db, key: TaskKey, columns: DecisionColumns) =>
  changed(tx, key)
    .set({ ...columns, decided_at: sql<Date>`now()` })
    .returning(TASK)
    .executeTakeFirstOrThrow()

export type Tally = Awaited<ReturnType<typeof listTallies>>[number]

/** How many tasks there are of each sort, and what they cost, for several batches at once. */
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

/** An empty list is no SQL. */
const NO_BATCH = '00000000-0000-0000-0000-000000000000'

export type NewCandidate = { id: string; candidate: CandidateFacts; pullRequest: TaskPullRequest; stage: StageName }

const NOTHING: Evidence = { findings: [], calibration: null }

export const insertCandidates = (tx: Db, batch: string, candidates: readonly NewCandidate[]) =>
  tx
    .insertInto('batch_tasks')
    .values(
      candidates.map(({ id, candidate, pullRequest, stage }) => ({
        ...{ batch, id, state: 'making' as const, stage, title: pullRequest.title, head: candidate.head },
        ...{ requested_difficulty: candidate.difficulty, candidate: JSON.stringify(candidate) },
        pull_request: JSON.stringify(pullRequest),
        evidence: JSON.stringify(NOTHING),
      })),
    )
    .execute()

type Discovery = { discovered: number; screened: number; warnings: readonly string[] }

/** Its candidates are listed. */
export const setDiscovered = (tx: Db, batch: string, { discovered, screened, warnings }: Discovery) =>
  tx
    .updateTable('batches')
    .set({ step: 'make', discovered, screened, warnings: sql`warnings || ${JSON.stringify(warnings)}::jsonb` })
    .where('id', '=', batch)
    .execute()

/** Only while it is at this stage: somebody may have sent it elsewhere. */
const changedAt = (tx: Db, key: TaskKey, stage: StageName) =>
  changed(tx, key).where('state', '=', 'making').where('stage', '=', stage)

/** What a stage has found out of it. What is undefined stays. */
type Progress = {
  next: StageName | undefined
  title: string | undefined
  difficulty: Difficulty | undefined
  files: TaskFiles | undefined
  concerns: string[]
}

/** False: somebody has sent the task elsewhere meanwhile. */
export async function passTask(tx: Db, key: TaskKey, stage: StageName, progress: Progress): Promise<boolean> {
  const { next, title, difficulty, files, concerns } = progress
  const { numUpdatedRows } = await changedAt(tx, key, stage)
    .set({ state: next ? 'making' : 'ready', stage: next ?? null, deferral: null, deferrals: 0 })
    .set({ title, difficulty, concerns: JSON.stringify(concerns) })
    .set(files ? columnsOf(files) : {})
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

type RejectionFound = Rejection & { evidence: Json | undefined }

/** Of the task that was made of it. */
export type Landed = TaskKey & { repository: number; head: string }

/** Tasks that were made of the same pull request before, and that nobody has decided on: there is a newer one now. */
export const supersede = (tx: Db, { repository, head, batch, task }: Landed, detail: string) =>
  sql`
    update batch_tasks set state = 'rejected', rejection = ${JSON.stringify({ reason: 'superseded', detail })}::jsonb
    from batches where batches.id = batch and repository = ${repository} and head = ${head}
      and batch_tasks.state = 'ready' and decision is null and (batch, batch_tasks.id) <> (${batch}, ${task})`.execute(
    tx,
  )

export const addConcern = (tx: Db, key: TaskKey, concern: string) =>
  changed(tx, key)
    .set({ concerns: sql`concerns || ${JSON.stringify([concern])}::jsonb` })
    .execute()

/** With what it was decided by, if there is more than words. */
export const rejectTask = (tx: Db, key: TaskKey, stage: StageName, { evidence, ...rejection }: RejectionFound) =>
  changedAt(tx, key, stage)
    .set({ state: 'rejected', deferral: null, rejection: JSON.stringify(rejection) })
    .set({ evidence: sql`(evidence - 'rejection') || ${JSON.stringify({ rejection: evidence })}::jsonb` })
    .execute()

export const deferTask = (tx: Db, key: TaskKey, stage: StageName, deferral: Waiting) =>
  changedAt(tx, key, stage)
    .set({ deferral: JSON.stringify(deferral), deferrals: sql<number>`deferrals + 1` })
    .execute()

/** It is being tried again. */
export const endDeferral = (tx: Db, key: TaskKey) => changed(tx, key).set({ deferral: null }).execute()

/** What waited may be tried at once. */
export const endDeferrals = (tx: Db, batch: string) =>
  tx.updateTable('batch_tasks').set({ deferral: null }).where('batch', '=', batch).execute()

export const addSpend = (tx: Db, key: TaskKey, micros: number) =>
  changed(tx, key)
    .set({ spent_micros: sql<number>`spent_micros + ${micros}` })
    .execute()
