import { type SelectQueryBuilder, sql } from 'kysely'
import { type Db, lock } from '../platform/db/db.ts'
import { pageNewestFirst } from '../platform/db/newest-first.ts'
import { prepared } from '../platform/db/prepared.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import type { Page } from '../platform/http/page.ts'
import { type Counts, NO_COUNTS } from './counts.ts'
import type { Pause, SubmissionError } from './shapes/schema.ts'

/** What the places of its trials in the queue depend on. */
export const queueOf = (row: ComparisonRow) => ({
  key: row.key,
  sandbox: row.sandbox,
  concurrency: row.concurrency,
})

/** A benchmark is known by its name, a repository by its key: its name may change. */
export type Scope =
  | { kind: 'benchmark'; owner: string; name: string; repository: null }
  | { kind: 'repository'; owner: string; name: string; repository: number }

export const isInScope = (row: ComparisonRow, { kind, owner, name, repository }: Scope): boolean =>
  kind === 'repository'
    ? row.repository === repository
    : row.scope_kind === kind && row.scope_owner === owner && row.scope_name === name

export type ComparisonRow = NonNullable<Awaited<ReturnType<typeof findComparisonRow>>>

const SHOWN = [
  ...([
    'key',
    'workspace_id',
    'id',
    'scope_kind',
    'scope_owner',
    'scope_name',
    'repository',
    'request_hash',
    'state',
    'step',
  ] as const),
  ...(['submission_error', 'pause', 'sandbox', 'sandbox_credential_id', 'skip_completed', 'attempts'] as const),
  ...(['budget_micros', 'trial_budget_micros', 'concurrency', 'frozen_digest', 'tasks'] as const),
  ...(['created_at', 'submit_asked_at', 'submitted_at', 'started_at', 'finished_at'] as const),
]

/** Two requests with one id wait for each other, also when neither has made a row yet. */
export const lockId = (tx: Db, workspaceId: string, id: string) => lock(tx, `comparison ${workspaceId} ${id}`)

export const findComparisonRow = (db: Db, workspaceId: string, id: string) =>
  db
    .selectFrom('comparisons')
    .select(SHOWN)
    .modifyFront(prepared)
    .where('workspace_id', '=', workspaceId)
    .where('id', '=', id)
    .executeTakeFirst()

export const findByKey = (db: Db, key: number) =>
  db.selectFrom('comparisons').select(SHOWN).where('key', '=', key).executeTakeFirst()

/** Until the transaction ends nobody else changes its state. */
export const lockComparison = (tx: Db, key: number) =>
  tx.selectFrom('comparisons').select(SHOWN).where('key', '=', key).forUpdate().executeTakeFirst()

/** The same for those who only must not see it change. */
export const holdState = (tx: Db, key: number) =>
  tx.selectFrom('comparisons').select('state').where('key', '=', key).forShare().executeTakeFirst()

export const listComparisonRows = (db: Db, workspaceId: string, scope: Scope, page: Page) =>
  inScope(db.selectFrom('comparisons').select(SHOWN), workspaceId, scope)
    .$call(pageNewestFirst('created_at', page))
    .execute()

function inScope<O>(
  query: SelectQueryBuilder<DB, 'comparisons', O>,
  workspaceId: string,
  { kind, owner, name, repository }: Scope,
) {
  const own = query.where('workspace_id', '=', workspaceId)
  if (kind === 'repository') return own.where('repository', '=', repository)
  return own.where('scope_kind', '=', kind).where('scope_owner', '=', owner).where('scope_name', '=', name)
}

export async function hasComparisons(db: Db, workspaceId: string, scope: Scope): Promise<boolean> {
  const row = await inScope(db.selectFrom('comparisons').select('key'), workspaceId, scope).limit(1).executeTakeFirst()
  return row !== undefined
}

const OPEN = ['submitting', 'running', 'paused'] as const

/** Whether one of them has not ended. One that is paused has not: trials of it may still run, and it can be resumed. */
export async function hasOpenComparisons(db: Db, repository: number): Promise<boolean> {
  const query = db.selectFrom('comparisons').select('key').where('repository', '=', repository)
  return (await query.where('state', 'in', OPEN).limit(1).executeTakeFirst()) !== undefined
}

type NewRow = {
  workspace_id: string
  id: string
  scope_kind: 'benchmark' | 'repository'
  scope_owner: string
  scope_name: string
  repository: number | null
  request_hash: Buffer
  sandbox: string
  sandbox_credential_id: string
  skip_completed: boolean
  attempts: number
  settings: number
  budget_micros: number | null
  trial_budget_micros: number | null
  concurrency: number | null
  source: string
}

export const insertComparison = (tx: Db, row: NewRow) =>
  tx.insertInto('comparisons').values(row).returning('key').executeTakeFirstOrThrow()

export type NewSetting = {
  id: string
  catalog_id: string
  name: string
  label: string
  provider: string
  custom: boolean
  harness: string
  harness_version: string
  reasoning_level: string
  credential_id: string
}

export const insertSettings = (tx: Db, comparison: number, settings: readonly NewSetting[]) =>
  tx
    .insertInto('comparison_settings')
    .values(settings.map((setting, position) => ({ comparison, position, ...setting })))
    .execute()

export const listSettingRows = (db: Db, keys: readonly number[]) =>
  keys.length === 0
    ? Promise.resolve([])
    : db
        .selectFrom('comparison_settings')
        .selectAll()
        .where('comparison', 'in', keys)
        .orderBy('comparison')
        .orderBy('position')
        .execute()

/** Added up as what they are here: sums of large integers are of a kind that is slow, and end as these anyway. */
const SUMS = Object.keys(NO_COUNTS).map((name) => sql`sum(${sql.ref(name)}::float8) as ${sql.ref(name)}`)

/** Spend of attempts that have not been counted yet: what is settled, and what is reserved for open calls. */
type LiveSpend = { settledMicros: number; pendingMicros: number }

const NO_LIVE_SPEND: LiveSpend = { settledMicros: 0, pendingMicros: 0 }

export type CountedSetting = Awaited<ReturnType<typeof listSettingRows>>[number] & { counts: Counts; live: LiveSpend }

/**
 * With what their trials count: as many rows as settings, however many trials there are. Attempts that have not been
 * counted yet are those that run, and their spend is read from their grants. The ordinal of a trial, and so its setting,
 * is in the last twelve digits of the subject of its grants. One statement, so that nothing is counted twice.
 */
export async function listCountedSettings(db: Db, keys: readonly number[]): Promise<CountedSetting[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<CountedSetting>`
    ${prepared} with live as materialized (
      select key as comparison, ('x' || right(subject, 12))::bit(48)::bigint % settings as setting, json_build_object(
        'settledMicros', sum(spent_micros - pending_micros - counted_micros), 'pendingMicros', sum(pending_micros)) as spend
      from gateway_grants join comparisons on shared_budget = 'comparison ' || key
      where counted_at is null and key = any(${keys}::bigint[]) group by 1, 2
    )
    select setting.*, to_json(counts) as counts, live.spend as live from comparison_settings as setting left join (
      select comparison, setting, ${sql.join(SUMS)} from trial_counts
      where comparison = any(${keys}::bigint[]) group by comparison, setting
    ) as counts on counts.comparison = setting.comparison and counts.setting = setting.position
    left join live on live.comparison = setting.comparison and live.setting = setting.position
    where setting.comparison = any(${keys}::bigint[]) order by setting.comparison, setting.position`.execute(db)
  return rows.map((row) => ({ ...row, counts: row.counts ?? NO_COUNTS, live: row.live ?? NO_LIVE_SPEND }))
}

/** Whatever its trials told of their isolation, in one word. */
export const noteIsolation = (tx: Db, comparison: number, position: number, isolation: string) =>
  tx
    .updateTable('comparison_settings')
    .set({ isolation: sql<string>`case when isolation is null then ${isolation} else 'mixed' end` })
    .where('comparison', '=', comparison)
    .where('position', '=', position)
    .where(sql<boolean>`isolation is distinct from ${isolation} and isolation is distinct from 'mixed'`)
    .execute()

export const findSource = async (db: Db, key: number): Promise<unknown> =>
  (await db.selectFrom('comparisons').select('source').where('key', '=', key).executeTakeFirstOrThrow()).source

type FrozenTask = { name: string; digest: string; run_id: string | null; task_id: string | null }
export type Frozen = { digest: string; tasks: FrozenTask[] }

/** What is frozen stays: its tasks are named one by one, and what they came from is not needed any more. */
export async function storeFrozen(tx: Db, key: number, frozen: Frozen) {
  await tx.deleteFrom('comparison_tasks').where('comparison', '=', key).execute()
  await tx
    .insertInto('comparison_tasks')
    .values(frozen.tasks.map((task, position) => ({ comparison: key, position, ...task })))
    .execute()
  await tx
    .updateTable('comparisons')
    .set({ step: 'plan', frozen_digest: frozen.digest, tasks: frozen.tasks.length, source: null })
    .where('key', '=', key)
    .execute()
}

export const listTaskRows = (db: Db, key: number) =>
  db
    .selectFrom('comparison_tasks')
    .select(['position', 'name', 'digest', 'run_id', 'task_id'])
    .where('comparison', '=', key)
    .orderBy('position')
    .execute()

export const setStep = (tx: Db, key: number, step: 'enqueue') =>
  tx.updateTable('comparisons').set({ step }).where('key', '=', key).execute()

export const startRunning = (tx: Db, key: number) =>
  tx
    .updateTable('comparisons')
    .set({
      ...{ state: 'running', step: 'done', submission_error: null, pause: null, finished_at: null },
      submitted_at: sql<Date>`coalesce(submitted_at, now())`,
    })
    .where('key', '=', key)
    .execute()

/** True: it was open until now. */
export async function failSubmission(tx: Db, key: number, error: SubmissionError): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('comparisons')
    .set({ state: 'submission_failed', submission_error: JSON.stringify(error) })
    .where('key', '=', key)
    .where('state', 'in', ['submitting', 'running'])
    .where('step', '<>', 'done')
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

/** From the step that was not made yet; trials that wait need their jobs again. */
export const goOn = (tx: Db, key: number, state: 'submitting' | 'running') =>
  tx
    .updateTable('comparisons')
    .set({
      ...{ state, submission_error: null, pause: null, finished_at: null, submit_asked_at: sql<Date>`now()` },
      step: sql<'enqueue'>`case step when 'done' then 'enqueue' else step end`,
    })
    .where('key', '=', key)
    .execute()

/** True: it ran until now. */
export async function pauseRow(tx: Db, key: number, pause: Pause): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('comparisons')
    .set({ state: 'paused', pause: JSON.stringify(pause) })
    .where('key', '=', key)
    .where('state', '=', 'running')
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

export const endRow = (tx: Db, key: number, state: 'completed' | 'canceled') =>
  tx
    .updateTable('comparisons')
    .set({ state, pause: null, submission_error: null, finished_at: sql<Date>`now()` })
    .where('key', '=', key)
    .execute()

export const noteStarted = (db: Db, key: number) =>
  db
    .updateTable('comparisons')
    .set({ started_at: sql<Date>`now()` })
    .where('key', '=', key)
    .where('started_at', 'is', null)
    .execute()

export const setBudget = (tx: Db, key: number, micros: number) =>
  tx.updateTable('comparisons').set({ budget_micros: micros }).where('key', '=', key).execute()

export async function swapCredential(tx: Db, key: number, from: string, to: string): Promise<void> {
  await tx
    .updateTable('comparison_settings')
    .set({ credential_id: to })
    .where('comparison', '=', key)
    .where('credential_id', '=', from)
    .execute()
  await tx
    .updateTable('comparisons')
    .set({ sandbox_credential_id: to })
    .where('key', '=', key)
    .where('sandbox_credential_id', '=', from)
    .execute()
}

/** Stored ones only: those that follow from the workspace cannot be deleted. */
export const holdCredentials = (tx: Db, key: number) =>
  sql`
    insert into comparison_credentials (comparison, credential_id)
    select ${key}, credentials.id from credentials where id in (
      select credential_id from comparison_settings where comparison = ${key}
      union select sandbox_credential_id from comparisons where key = ${key}
    )
    on conflict do nothing`.execute(tx)

export const releaseCredentials = (tx: Db, key: number) =>
  tx.deleteFrom('comparison_credentials').where('comparison', '=', key).execute()

/** Running ones of which nothing is left to do: whoever should have ended them did not get to it. */
export async function listUnended(db: Db): Promise<number[]> {
  const { rows } = await sql<{ key: number }>`
    select key from comparisons where state = 'running' and not exists (
      select from trial_counts where comparison = comparisons.key and (queued > 0 or running > 0)
    )`.execute(db)
  return rows.map(({ key }) => key)
}

type Used = { catalog_id: string } | { harness: string }

export async function hasOpenSettings(db: Db, workspaceId: string, used: Used): Promise<boolean> {
  const found = await db
    .selectFrom('comparison_settings')
    .innerJoin('comparisons', 'comparisons.key', 'comparison_settings.comparison')
    .select('comparisons.key')
    .where('workspace_id', '=', workspaceId)
    .where((where) => where.and(used))
    .where('state', 'in', OPEN)
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}

/** Settings of every comparison of a repository, the oldest first. */
export const listRepositorySettings = (db: Db, repository: number) =>
  db
    .selectFrom('comparison_settings as setting')
    .innerJoin('comparisons', 'comparisons.key', 'setting.comparison')
    .select(['setting.comparison', 'setting.position', 'setting.id', 'setting.catalog_id', 'setting.name'])
    .select(['setting.label', 'setting.provider', 'setting.custom', 'setting.harness', 'setting.harness_version'])
    .select(['setting.reasoning_level', 'comparisons.sandbox', 'comparisons.created_at'])
    .where('comparisons.repository', '=', repository)
    .orderBy('comparisons.created_at')
    .orderBy('comparisons.key')
    .orderBy('setting.position')
    .execute()

export const listRepositoryTasks = (db: Db, repository: number) =>
  db
    .selectFrom('comparison_tasks as task')
    .innerJoin('comparisons', 'comparisons.key', 'task.comparison')
    .select(['task.comparison', 'task.position', 'task.digest'])
    .where('comparisons.repository', '=', repository)
    .execute()

/** The trials of one setting that have ended, value by value: there are many, and to make each a row would cost more. */
export type Ended = {
  comparison: number
  setting: number
  tasks: number[]
  attempts: number[]
  states: ('passed' | 'failed' | 'errored')[]
  verify_modes: (string | null)[]
  cost_micros: (number | null)[]
  cost_sources: (string | null)[]
  isolations: (string | null)[]
  usages: unknown[]
  resources: unknown[]
  /** The trial itself, also where another comparison used it again. */
  origins: number[]
  ordinals: number[]
  voided: boolean[]
}

/** All trials of these comparisons that have ended, with or without a result, setting by setting. */
export async function listEnded(db: Db, comparisons: readonly number[]) {
  const { rows } = await sql<Ended>`
    select trials.comparison, trials.setting, json_agg(trials.task) as tasks, json_agg(trials.attempt) as attempts,
      json_agg(trials.state) as states, json_agg(trials.verify_mode) as verify_modes,
      json_agg(trials.cost_micros) as cost_micros, json_agg(trials.detail->'costSource') as cost_sources,
      json_agg(trials.detail->'isolation') as isolations, json_agg(trials.detail->'usage') as usages,
      json_agg(trials.detail->'resources') as resources,
      json_agg(coalesce(trials.reused_comparison, trials.comparison)) as origins,
      json_agg(coalesce(trials.reused_ordinal, trials.ordinal)) as ordinals,
      json_agg(trials.voided_at is not null or origin.voided_at is not null) as voided
    from trials left join trials as origin
      on origin.comparison = trials.reused_comparison and origin.ordinal = trials.reused_ordinal
    where trials.comparison = any(${comparisons}::bigint[]) and trials.state in ('passed', 'failed', 'errored')
    group by trials.comparison, trials.setting`.execute(db)
  return rows
}
