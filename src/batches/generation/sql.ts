import { sql } from 'kysely'
import { z } from 'zod'
import type { Db } from '../../platform/db/db.ts'
import { OPEN_STATES, TaskFiles } from '../shapes/schema.ts'
import type { Json, StageDone, StageName } from '../stages/make.ts'
import type { Landed, TaskKey } from '../state.ts'
import { Difficulty } from './schema.ts'

/** Everything a stage begins with but what the stages before it made. */
export const findMaking = (db: Db, { batch, task }: TaskKey) =>
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
    .select(['repositories.source_kind', 'repositories.url', 'repositories.credential_id'])
    .where('batch_tasks.batch', '=', batch)
    .where('batch_tasks.id', '=', task)
    .executeTakeFirst()

/** The repository of a batch, and who may read it. */
export const findSource = (db: Db, batch: string) =>
  db
    .selectFrom('batches')
    .innerJoin('repositories', 'repositories.key', 'batches.repository')
    .select(['repositories.key', 'repositories.workspace_id as workspaceId', 'repositories.owner', 'repositories.name'])
    .select(['repositories.source_kind', 'repositories.host', 'repositories.url', 'repositories.credential_id'])
    .where('batches.id', '=', batch)
    .executeTakeFirst()

/** What a column of JSON gives is JSON. */
const Stored = z.custom<Json>()

/** With the files, where it made some. */
const StageOutcome = z.object({
  ...{ made: Stored, evidence: Stored, concerns: z.array(z.string()).exactOptional() },
  ...{ title: z.string().exactOptional(), difficulty: Difficulty.exactOptional(), files: TaskFiles.exactOptional() },
}) satisfies z.ZodType<StageDone>
export type StageOutcome = z.infer<typeof StageOutcome>

/** The stages that a task has passed, with what each came to. */
export async function listPassed(db: Db, { batch, task }: TaskKey) {
  const found = await db
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
  return found.map((row) => ({ ...row, result: StageOutcome.parse(row.result) }))
}

type ResultKey = { workspaceId: string; stage: StageName; digest: string }

export async function findResult(db: Db, { workspaceId, stage, digest }: ResultKey) {
  const row = await db
    .selectFrom('batch_stage_results')
    .select(['result', 'seconds'])
    .where('workspace_id', '=', workspaceId)
    .where('stage', '=', stage)
    .where('input_digest', '=', digest)
    .executeTakeFirst()
  return row && { result: StageOutcome.parse(row.result), seconds: row.seconds }
}

/** Of two who found the same out at once, the first counts: answers what does. */
export async function saveResult(tx: Db, key: ResultKey, result: StageOutcome, seconds: number): Promise<StageOutcome> {
  const { workspaceId, stage, digest } = key
  const row = { workspace_id: workspaceId, stage, input_digest: digest, result: JSON.stringify(result), seconds }
  await tx
    .insertInto('batch_stage_results')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  return (await findResult(tx, key))?.result ?? result
}

/** Its files were swept away, so that no task has it any more. */
export const forgetResult = (tx: Db, { workspaceId, stage, digest }: ResultKey) =>
  tx
    .deleteFrom('batch_stage_results')
    .where('workspace_id', '=', workspaceId)
    .where('stage', '=', stage)
    .where('input_digest', '=', digest)
    .execute()

export const insertPassed = (tx: Db, { batch, task }: TaskKey, key: ResultKey, isReused: boolean) =>
  tx
    .insertInto('batch_task_stages')
    .values({
      ...{ batch, task, stage: key.stage, workspace_id: key.workspaceId },
      ...{ input_digest: key.digest, is_reused: isReused },
    })
    .onConflict((conflict) =>
      conflict
        .columns(['batch', 'task', 'stage'])
        .doUpdateSet({ input_digest: key.digest, is_reused: isReused, passed_at: sql<Date>`now()` }),
    )
    .execute()

export async function readSpent(db: Db, batch: string): Promise<number> {
  const { rows } = await sql<{ spent: number }>`
    select coalesce(sum(spent_micros), 0)::bigint as spent from batch_tasks where batch = ${batch}`.execute(db)
  return rows[0]?.spent ?? 0
}

/** When a task came to the stage that it is at. */
export async function readStageBegin(db: Db, { batch, task }: TaskKey): Promise<Date> {
  const { rows } = await sql<{ begin: Date }>`
    select coalesce(max(passed_at), 'epoch') as begin from batch_task_stages
    where batch = ${batch} and task = ${task}`.execute(db)
  return rows[0]?.begin ?? new Date(0)
}

/** What the last tasks that came to an end have cost on average. Undefined: there are fewer than `atLeast`. */
export async function readUsualSpend(db: Db, workspaceId: string, atLeast: number): Promise<number | undefined> {
  const { rows } = await sql<{ tasks: number; micros: number | null }>`
    select count(*)::int as tasks, avg(spent_micros)::float8 as micros from (
      select spent_micros from batch_tasks
      join batches on batches.id = batch join repositories on repositories.key = repository
      where workspace_id = ${workspaceId} and candidate is not null and batch_tasks.state in ('ready', 'rejected')
      order by batches.created_at desc limit 200) as last`.execute(db)
  const [{ tasks, micros } = { tasks: 0, micros: null }] = rows
  return micros === null || tasks < atLeast ? undefined : micros
}

/** Those that are being made, by their ids. */
export const listMaking = (db: Db, batch: string) =>
  db
    .selectFrom('batch_tasks')
    .select(['id', 'stage', 'deferral'])
    .where('batch', '=', batch)
    .where('state', '=', 'making')
    .orderBy('id')
    .execute()

export async function listOpenGenerated(db: Db): Promise<string[]> {
  const query = db.selectFrom('batches').select('id').where('step', '=', 'make')
  return (await query.where('state', 'in', ['running', 'waiting']).execute()).map(({ id }) => id)
}

/** Heads of pull requests that were made ready or rejected here, or are being made. What a machine broke does not count. */
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

type Other = { batch: string; task: string }

/** Tasks of the same pull request that are approved. */
export async function listApprovedOf(tx: Db, { repository, head, batch, task }: Landed): Promise<Other[]> {
  const { rows } = await sql<Other>`
    select batch, batch_tasks.id as task from batch_tasks join batches on batches.id = batch
    where repository = ${repository} and head = ${head} and decision = 'approved'
      and (batch, batch_tasks.id) <> (${batch}, ${task}) order by batch, batch_tasks.id`.execute(tx)
  return rows
}

/** What judged an instruction that is another one now. */
export const deletePassed = (tx: Db, { batch, task }: TaskKey, stages: readonly StageName[]) =>
  tx
    .deleteFrom('batch_task_stages')
    .where('batch', '=', batch)
    .where('task', '=', task)
    .where('stage', 'in', stages)
    .execute()

/** Open batches of a workspace that ask this model. */
export async function hasOpenModel(db: Db, workspaceId: string, catalogId: string): Promise<boolean> {
  const query = db
    .selectFrom('batches')
    .innerJoin('repositories', 'repositories.key', 'batches.repository')
    .select('batches.id')
    .where('workspace_id', '=', workspaceId)
    .where('state', 'in', OPEN_STATES)
    .where(sql<boolean>`${catalogId} in (generation->>'authorModel', generation->>'verifierModel')`)
  return (await query.limit(1).executeTakeFirst()) !== undefined
}
