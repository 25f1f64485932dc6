import { sql } from 'kysely'
import { z } from 'zod'
import type { Json } from '../../harnesses/json.ts'
import type { Db } from '../../platform/db/db.ts'
import {
  type BatchError,
  Difficulty,
  OPEN_STATES,
  type Rejection,
  type TaskEvidence,
  TaskFiles,
  type TaskPullRequest,
  type Waiting,
} from '../schema.ts'
import { type CandidateFacts, FIRST_REVIEWED_STAGE, type StageDone, type StageName } from './stage.ts'

/** Loads a task with its batch and repository, for its current stage. The task may have ended. */
export const findTaskRow = (db: Db, { batch, task }: TaskKey) =>
  db
    .selectFrom('batch_tasks')
    .innerJoin('batches', 'batches.id', 'batch_tasks.batch')
    .innerJoin('repositories', 'repositories.key', 'batches.repository')
    .select(['batch_tasks.batch', 'batch_tasks.id as task', 'batch_tasks.state', 'batch_tasks.stage'])
    .select(sql<boolean>`batch_tasks.deferral is not null`.as('isDeferred'))
    .select('batch_tasks.deferrals')
    .select(['batch_tasks.candidate', 'batch_tasks.instruction', 'batch_tasks.digest', 'batch_tasks.content'])
    .select(['batches.state as batchState', 'batches.generation', 'batches.budget_micros as budgetMicros'])
    .select(['repositories.key', 'repositories.workspace_id as workspaceId', 'repositories.owner', 'repositories.name'])
    .select(['repositories.source_kind', 'repositories.url', 'repositories.credential_id', 'repositories.visibility'])
    .where('batch_tasks.batch', '=', batch)
    .where('batch_tasks.id', '=', task)
    .executeTakeFirst()

/** Finds the repository of a batch and its credential. */
export const findBatchSource = (db: Db, batch: string) =>
  db
    .selectFrom('batches')
    .innerJoin('repositories', 'repositories.key', 'batches.repository')
    .select(['repositories.key', 'repositories.workspace_id as workspaceId', 'repositories.owner', 'repositories.name'])
    .select(['repositories.source_kind', 'repositories.host', 'repositories.url', 'repositories.credential_id'])
    .select('repositories.visibility')
    .where('batches.id', '=', batch)
    .executeTakeFirst()

const StoredJson = z.custom<Json>()

/** Stored result of a stage. `files` is set if the stage wrote files. */
const StageOutcome = z.object({
  output: StoredJson,
  evidence: StoredJson,
  concerns: z.array(z.string()).optional(),
  title: z.string().optional(),
  difficulty: Difficulty.optional(),
  files: TaskFiles.optional(),
}) satisfies z.ZodType<StageDone>
export type StageOutcome = z.infer<typeof StageOutcome>

/** Lists the passed stages of a task with their results. */
export async function listPassedStages(db: Db, { batch, task }: TaskKey) {
  const passedRows = await db
    .selectFrom('batch_task_stages as passed')
    .innerJoin('batch_stage_results as results', (join) =>
      join
        .onRef('results.workspace_id', '=', 'passed.workspace_id')
        .onRef('results.stage', '=', 'passed.stage')
        .onRef('results.input_digest', '=', 'passed.input_digest'),
    )
    .select(['passed.stage', 'passed.is_reused', 'passed.passed_at', 'results.seconds', 'results.result'])
    .where('batch', '=', batch)
    .where('task', '=', task)
    .orderBy('passed.passed_at')
    .execute()
  return passedRows.map((row) => ({ ...row, result: StageOutcome.parse(row.result) }))
}

type ResultKey = { workspaceId: string; stage: StageName; digest: string }

export async function findCachedResult(db: Db, { workspaceId, stage, digest }: ResultKey) {
  const row = await db
    .selectFrom('batch_stage_results')
    .select(['result', 'seconds'])
    .where('workspace_id', '=', workspaceId)
    .where('stage', '=', stage)
    .where('input_digest', '=', digest)
    .executeTakeFirst()
  return row && { result: StageOutcome.parse(row.result), seconds: row.seconds }
}

/** Saves the result of a stage, unless a concurrent run has stored one. Returns the stored result. */
export async function saveResult(tx: Db, key: ResultKey, result: StageOutcome, seconds: number): Promise<StageOutcome> {
  const { workspaceId, stage, digest } = key
  const row = { workspace_id: workspaceId, stage, input_digest: digest, result: JSON.stringify(result), seconds }
  await tx
    .insertInto('batch_stage_results')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  return (await findCachedResult(tx, key))?.result ?? result
}

/** Deletes a cached result whose files have been swept. */
export const deleteCachedResult = (tx: Db, { workspaceId, stage, digest }: ResultKey) =>
  tx
    .deleteFrom('batch_stage_results')
    .where('workspace_id', '=', workspaceId)
    .where('stage', '=', stage)
    .where('input_digest', '=', digest)
    .execute()

export const insertPassedStage = (tx: Db, { batch, task }: TaskKey, key: ResultKey, isReused: boolean) =>
  tx
    .insertInto('batch_task_stages')
    .values({
      batch,
      task,
      stage: key.stage,
      workspace_id: key.workspaceId,
      input_digest: key.digest,
      is_reused: isReused,
    })
    .onConflict((conflict) =>
      conflict
        .columns(['batch', 'task', 'stage'])
        .doUpdateSet({ input_digest: key.digest, is_reused: isReused, passed_at: sql<Date>`now()` }),
    )
    .execute()

export async function readSpentMicros(db: Db, batch: string): Promise<number> {
  const { rows } = await sql<{ spent: number }>`
    select coalesce(sum(spent_micros), 0)::bigint as spent from batch_tasks where batch = ${batch}`.execute(db)
  return rows[0]?.spent ?? 0
}

/** Returns when a task reached its current stage. */
export async function readStageStart(db: Db, { batch, task }: TaskKey): Promise<Date> {
  const { rows } = await sql<{ start: Date }>`
    select coalesce(max(passed_at), 'epoch') as start from batch_task_stages
    where batch = ${batch} and task = ${task}`.execute(db)
  return rows[0]?.start ?? new Date(0)
}

/** Returns the mean cost of recently finished tasks; undefined if there are fewer than `tasksMin`. */
export async function findUsualMicros(db: Db, workspaceId: string, tasksMin: number): Promise<number | undefined> {
  const { rows } = await sql<{ tasks: number; micros: number | null }>`
    select count(*)::int as tasks, avg(spent_micros)::float8 as micros from (
      select spent_micros from batch_tasks
      join batches on batches.id = batch join repositories on repositories.key = repository
      where workspace_id = ${workspaceId} and candidate is not null and batch_tasks.state in ('ready', 'rejected')
      order by batches.created_at desc limit 200) as last`.execute(db)
  const [{ tasks, micros } = { tasks: 0, micros: null }] = rows
  return micros === null || tasks < tasksMin ? undefined : micros
}

export const listTasksInProgress = (db: Db, batch: string) =>
  db
    .selectFrom('batch_tasks')
    .select(['id', 'stage', 'deferral'])
    .where('batch', '=', batch)
    .where('state', '=', 'making')
    .orderBy('id')
    .execute()

/** Lists the generated batches whose candidates are selected and that have not ended. */
export async function listOpenGenerated(db: Db): Promise<string[]> {
  const query = db.selectFrom('batches').select('id').where('step', '=', 'make')
  return (await query.where('state', 'in', ['running', 'waiting']).execute()).map(({ id }) => id)
}

/** Lists heads of pull requests that are ready, rejected or in progress, except technical failures. */
export async function listTriedHeads(db: Db, repository: number): Promise<Set<string>> {
  const { rows } = await sql<{ head: string }>`
    select distinct head from batch_tasks join batches on batches.id = batch
    where repository = ${repository} and head is not null and (
      batch_tasks.state = 'ready'
      or batch_tasks.state = 'rejected' and rejection->>'reason' not in ('environment_failed', 'internal_error')
      or batch_tasks.state = 'making' and batches.state not in ('canceled', 'failed')
    )`.execute(db)
  return new Set(rows.map(({ head }) => head))
}

type OtherTask = { batch: string; task: string }

/** Lists the approved tasks of the same pull request. */
export async function listApprovedSiblings(
  tx: Db,
  { repository, head, batch, task }: TaskOrigin,
): Promise<OtherTask[]> {
  const { rows } = await sql<OtherTask>`
    select batch, batch_tasks.id as task from batch_tasks join batches on batches.id = batch
    where repository = ${repository} and head = ${head} and decision = 'approved'
      and (batch, batch_tasks.id) <> (${batch}, ${task}) order by batch, batch_tasks.id`.execute(tx)
  return rows
}

/** Makes stages count as not passed. Their cached results stay. */
export const deletePassedStages = (tx: Db, { batch, task }: TaskKey, stages: readonly StageName[]) =>
  tx
    .deleteFrom('batch_task_stages')
    .where('batch', '=', batch)
    .where('task', '=', task)
    .where('stage', 'in', stages)
    .execute()

/** Returns true if an open batch of the workspace uses this model. */
export async function hasOpenBatchWithModel(db: Db, workspaceId: string, catalogId: string): Promise<boolean> {
  const query = db
    .selectFrom('batches')
    .innerJoin('repositories', 'repositories.key', 'batches.repository')
    .select('batches.id')
    .where('workspace_id', '=', workspaceId)
    .where('state', 'in', OPEN_STATES)
    .where(sql<boolean>`${catalogId} in (generation->>'authorModel', generation->>'verifierModel')`)
  return (await query.limit(1).executeTakeFirst()) !== undefined
}

export type BatchRow = NonNullable<Awaited<ReturnType<typeof findBatch>>>

/** Prevents the deletion of these credentials until the batch ends. Credentials that are not stored are skipped. */
export const holdCredentials = (tx: Db, batch: string, ids: readonly string[]) =>
  sql`
    insert into batch_credentials (batch, credential_id)
    select ${batch}, id from credentials where id = any(${ids}::uuid[])
    on conflict do nothing`.execute(tx)

export const findBatch = (db: Db, id: string) =>
  db.selectFrom('batches').selectAll().where('id', '=', id).executeTakeFirst()

/** Locks the row until the transaction ends. Lock order: jobs before batches. */
export const lockBatch = (tx: Db, id: string) =>
  tx.selectFrom('batches').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()

/** Updates an open batch. A batch that was canceled meanwhile stays canceled. */
const updateOpenBatch = (db: Db, id: string) =>
  db.updateTable('batches').where('id', '=', id).where('state', 'in', OPEN_STATES)

export const beginDiscovery = (db: Db, id: string) =>
  updateOpenBatch(db, id).set({ state: 'discovering', started_at: sql<Date>`coalesce(started_at, now())` }).execute()

export const markRunning = (tx: Db, id: string) =>
  updateOpenBatch(tx, id)
    .set({ state: 'running', waiting: null, started_at: sql<Date>`coalesce(started_at, now())` })
    .execute()

export const markWaiting = (tx: Db, id: string, waiting: Waiting) =>
  updateOpenBatch(tx, id)
    .set({ state: 'waiting', waiting: JSON.stringify(waiting) })
    .execute()

/**
 * Ends an open batch. Also releases its credentials, and its archive if a retry is pointless. Returns false if it was not
 * open.
 */
async function endBatch(tx: Db, id: string, state: BatchRow['state'], error?: BatchError): Promise<boolean> {
  const row = await updateOpenBatch(tx, id)
    .set({ state, waiting: null, finished_at: sql<Date>`now()`, error: error ? JSON.stringify(error) : null })
    .$if(error?.retryable === false, (query) => query.set({ archive: null }))
    .returning('id')
    .executeTakeFirst()
  await tx.deleteFrom('batch_credentials').where('batch', '=', id).execute()
  return row !== undefined
}

export const failBatch = (tx: Db, id: string, error: BatchError) => endBatch(tx, id, 'failed', error)

export const cancelBatch = (tx: Db, id: string) => endBatch(tx, id, 'canceled')

export const completeBatch = (tx: Db, id: string) => endBatch(tx, id, 'completed')

export const reopenBatch = (tx: Db, id: string) =>
  tx
    .updateTable('batches')
    .set({ state: 'queued', error: null, finished_at: null })
    .where('id', '=', id)
    .where('state', 'in', ['failed', 'canceled', 'completed'])
    .execute()

export type TaskKey = { batch: string; task: string }

const updateTask = (tx: Db, { batch, task }: TaskKey) =>
  tx.updateTable('batch_tasks').where('batch', '=', batch).where('id', '=', task)

/**
 * Replaces the files of a task and clears decisions and evidence about the old ones. A generated task returns to the stage
 * that reviews the instruction; results of earlier stages are kept.
 */
export async function resetTask(tx: Db, key: TaskKey, files: TaskFiles, instruction: string | null): Promise<void> {
  await updateTask(tx, key)
    .set({
      ...toFileColumns(files),
      instruction,
      ...(instruction === null
        ? { state: 'validating', stage: null }
        : { state: 'making', stage: FIRST_REVIEWED_STAGE }),
      rejection: null,
      deferral: null,
      concerns: '[]',
      decision: null,
      note: null,
      decided_at: null,
    })
    .execute()
}

const toFileColumns = ({ digest, content, evidence }: TaskFiles) => ({
  digest,
  content: JSON.stringify(content),
  evidence: JSON.stringify(evidence),
})

export type NewCandidate = { id: string; candidate: CandidateFacts; pullRequest: TaskPullRequest; stage: StageName }

const NO_EVIDENCE: TaskEvidence = { findings: [], calibration: null }

export const insertCandidates = (tx: Db, batch: string, candidates: readonly NewCandidate[]) =>
  tx
    .insertInto('batch_tasks')
    .values(
      candidates.map(({ id, candidate, pullRequest, stage }) => ({
        batch,
        id,
        state: 'making' as const,
        stage,
        title: pullRequest.title,
        head: candidate.head,
        requested_difficulty: candidate.difficulty,
        candidate: JSON.stringify(candidate),
        pull_request: JSON.stringify(pullRequest),
        evidence: JSON.stringify(NO_EVIDENCE),
      })),
    )
    .execute()

type DiscoveryCounts = { discovered: number; screened: number; warnings: readonly string[] }

export const setDiscovered = (tx: Db, batch: string, { discovered, screened, warnings }: DiscoveryCounts) =>
  tx
    .updateTable('batches')
    .set({ step: 'make', discovered, screened, warnings: sql`warnings || ${JSON.stringify(warnings)}::jsonb` })
    .where('id', '=', batch)
    .execute()

/** Matches only while the task is at this stage; an edit may have reset it. */
const updateTaskAt = (tx: Db, key: TaskKey, stage: StageName) =>
  updateTask(tx, key).where('state', '=', 'making').where('stage', '=', stage)

/** Changes after a passed stage. Undefined fields stay as they are. */
type StageProgress = {
  next: StageName | undefined
  title: string | undefined
  difficulty: Difficulty | undefined
  files: TaskFiles | undefined
  concerns: string[]
}

/** Returns false if the task was reset meanwhile. */
export async function passTask(tx: Db, key: TaskKey, stage: StageName, progress: StageProgress): Promise<boolean> {
  const { next, title, difficulty, files, concerns } = progress
  const { numUpdatedRows } = await updateTaskAt(tx, key, stage)
    .set({ state: next ? 'making' : 'ready', stage: next ?? null, deferral: null, deferrals: 0 })
    .set({ title, difficulty, concerns: JSON.stringify(concerns) })
    .set(files ? toFileColumns(files) : {})
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

type TaskRejection = Rejection & { evidence: Json | undefined }

type TaskOrigin = TaskKey & { repository: number; head: string }

/** Rejects the other ready tasks of the same pull request that have no decision. */
export const supersede = (tx: Db, { repository, head, batch, task }: TaskOrigin, detail: string) =>
  sql`
    update batch_tasks set state = 'rejected', rejection = ${JSON.stringify({ reason: 'superseded', detail })}::jsonb
    from batches where batches.id = batch and repository = ${repository} and head = ${head} and decision is null
      and batch_tasks.state = 'ready' and (batch, batch_tasks.id) <> (${batch}, ${task})`.execute(tx)

export const addConcern = (tx: Db, key: TaskKey, concern: string) =>
  updateTask(tx, key)
    .set({ concerns: sql`concerns || ${JSON.stringify([concern])}::jsonb` })
    .execute()

/** Stores the rejection with its structured evidence, if any. */
export const rejectTask = (tx: Db, key: TaskKey, stage: StageName, { evidence, ...rejection }: TaskRejection) =>
  updateTaskAt(tx, key, stage)
    .set({ state: 'rejected', deferral: null, rejection: JSON.stringify(rejection) })
    .set({ evidence: sql`(evidence - 'rejection') || ${JSON.stringify({ rejection: evidence })}::jsonb` })
    .execute()

export const deferTask = (tx: Db, key: TaskKey, stage: StageName, deferral: Waiting) =>
  updateTaskAt(tx, key, stage)
    .set({ deferral: JSON.stringify(deferral), deferrals: sql<number>`deferrals + 1` })
    .execute()

export const endDeferral = (tx: Db, key: TaskKey) => updateTask(tx, key).set({ deferral: null }).execute()

export const addSpend = (tx: Db, key: TaskKey, micros: number) =>
  updateTask(tx, key)
    .set({ spent_micros: sql<number>`spent_micros + ${micros}` })
    .execute()
