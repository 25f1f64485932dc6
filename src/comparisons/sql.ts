import { type Selectable, type SelectQueryBuilder, sql } from 'kysely'
import { type Db, executePrepared, lock, pageNewestFirst } from '../platform/db/db.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import type { Page } from '../platform/http/page.ts'
import { COUNT_NAMES, NO_COUNTS, type SettingCounts } from './counts.ts'
import type { ComparisonPause, SubmissionError } from './shapes/schema.ts'

/** The benchmark or repository that a comparison runs on. Repositories are identified by key, because they can be renamed. */
export type ComparisonScope =
  | { kind: 'benchmark'; owner: string; name: string; repository: null }
  | { kind: 'repository'; owner: string; name: string; repository: number }

export const isInScope = (row: ComparisonRow, { kind, owner, name, repository }: ComparisonScope): boolean =>
  kind === 'repository'
    ? row.repository === repository
    : row.scope_kind === kind && row.scope_owner === owner && row.scope_name === name

export type ComparisonRow = NonNullable<Awaited<ReturnType<typeof findComparisonRow>>>

/** Selects comparisons. Their scope has the current name of a repository, which may have been renamed. */
const selectComparisons = (db: Db) =>
  db
    .selectFrom('comparisons')
    .select(['key', 'workspace_id', 'id', 'scope_kind', 'repository', 'request_hash'])
    .select(({ fn, selectFrom }) => {
      const repository = selectFrom('repositories').whereRef('repositories.key', '=', 'comparisons.repository')
      return [
        fn.coalesce(repository.select('repositories.owner'), 'scope_owner').as('scope_owner'),
        fn.coalesce(repository.select('repositories.name'), 'scope_name').as('scope_name'),
      ]
    })
    .select(['state', 'step', 'submission_error', 'pause', 'sandbox', 'sandbox_credential_id', 'skip_completed'])
    .select(['attempts', 'settings', 'budget_micros', 'trial_budget_micros', 'concurrency', 'frozen_digest', 'tasks'])
    .select(['created_at', 'submit_asked_at', 'submitted_at', 'started_at', 'finished_at'])

/** Serializes requests with the same id, also before a row exists. */
export const lockId = (tx: Db, workspaceId: string, id: string) => lock(tx, `comparison ${workspaceId} ${id}`)

export async function findComparisonRow(db: Db, workspaceId: string, id: string) {
  const query = selectComparisons(db).where('workspace_id', '=', workspaceId).where('id', '=', id)
  const { rows } = await executePrepared(db, query)
  return rows[0]
}

export const findComparisonByKey = (db: Db, key: number) =>
  selectComparisons(db).where('key', '=', key).executeTakeFirst()

/** Locks the row until the transaction ends, so that its state cannot change. */
export const lockComparison = (tx: Db, key: number) =>
  selectComparisons(tx).where('key', '=', key).forUpdate().executeTakeFirst()

/** Locks the row against changes but not against other readers. */
export const lockStateShared = (tx: Db, key: number) =>
  tx.selectFrom('comparisons').select('state').where('key', '=', key).forShare().executeTakeFirst()

export const listComparisonRows = (db: Db, workspaceId: string, scope: ComparisonScope | undefined, page: Page) =>
  whereInScope(selectComparisons(db), workspaceId, scope).$call(pageNewestFirst('created_at', page)).execute()

function whereInScope<O>(
  query: SelectQueryBuilder<DB, 'comparisons', O>,
  workspaceId: string,
  scope: ComparisonScope | undefined,
) {
  const inWorkspace = query.where('workspace_id', '=', workspaceId)
  if (!scope) return inWorkspace
  const { kind, owner, name, repository } = scope
  if (kind === 'repository') return inWorkspace.where('repository', '=', repository)
  return inWorkspace.where('scope_kind', '=', kind).where('scope_owner', '=', owner).where('scope_name', '=', name)
}

export async function hasComparisons(db: Db, workspaceId: string, scope: ComparisonScope): Promise<boolean> {
  const row = await whereInScope(db.selectFrom('comparisons').select('key'), workspaceId, scope)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

const OPEN_STATES = ['submitting', 'running', 'paused'] as const

/** Returns true if a comparison of the repository is open. Paused comparisons are open: some of their trials may still run. */
export async function hasOpenComparisons(db: Db, repository: number): Promise<boolean> {
  const query = db.selectFrom('comparisons').select('key').where('repository', '=', repository)
  return (await query.where('state', 'in', OPEN_STATES).limit(1).executeTakeFirst()) !== undefined
}

type NewComparisonRow = {
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

export const insertComparison = (tx: Db, row: NewComparisonRow) =>
  tx.insertInto('comparisons').values(row).returning('key').executeTakeFirstOrThrow()

export type NewSetting = Omit<Selectable<DB['comparison_settings']>, 'comparison' | 'position' | 'isolation'>

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

/** Sums of the counters as float8: sums of bigint are `numeric`, which is slow, and the driver converts the result to a number anyway. */
const COUNT_SUMS = COUNT_NAMES.map((name) => sql`sum(${sql.ref(name)}::float8) as ${sql.ref(name)}`)

/** Returns the id of the budget that all trials of a comparison share. Queries build the same text in SQL. */
export const toSharedBudgetId = (comparison: number): string => `comparison ${comparison}`

/** Spend of attempts that are not counted yet: settled calls, and reservations of open calls. */
type LiveSpend = { settledMicros: number; pendingMicros: number }

const NO_LIVE_SPEND: LiveSpend = { settledMicros: 0, pendingMicros: 0 }

type CountedSetting = Awaited<ReturnType<typeof listSettingRows>>[number] & {
  counts: SettingCounts
  live: LiveSpend
}

/**
 * Lists settings with their counts: one row per setting, regardless of the number of trials. Attempts that are not counted
 * yet are running; their spend is read from their grants. The last twelve digits of a grant's grantee are the ordinal of
 * its trial, which determines the setting. A single statement, so that no spend is counted twice.
 */
export async function listCountedSettings(db: Db, keys: readonly number[]): Promise<CountedSetting[]> {
  if (keys.length === 0) return []
  const { rows } = await executePrepared(
    db,
    sql<CountedSetting>`
    with live as materialized (
      select key as comparison, ('x' || right(subject, 12))::bit(48)::bigint % settings as setting, json_build_object(
        'settledMicros', sum(spent_micros - pending_micros - counted_micros), 'pendingMicros', sum(pending_micros)) as spend
      from gateway_grants join comparisons on shared_budget = 'comparison ' || key
      where counted_at is null and key = any(${keys}::bigint[]) group by 1, 2
    )
    select setting.*, to_json(counts) as counts, live.spend as live from comparison_settings as setting left join (
      select comparison, setting, ${sql.join(COUNT_SUMS)} from trial_counts
      where comparison = any(${keys}::bigint[]) group by comparison, setting
    ) as counts on counts.comparison = setting.comparison and counts.setting = setting.position
    left join live on live.comparison = setting.comparison and live.setting = setting.position
    where setting.comparison = any(${keys}::bigint[]) order by setting.comparison, setting.position`,
  )
  return rows.map((row) => ({ ...row, counts: row.counts ?? NO_COUNTS, live: row.live ?? NO_LIVE_SPEND }))
}

/** Records the isolation that a trial reported. Becomes `mixed` when trials of the setting differ. */
export const recordIsolation = (tx: Db, comparison: number, position: number, isolation: string) =>
  tx
    .updateTable('comparison_settings')
    .set({ isolation: sql<string>`case when isolation is null then ${isolation} else 'mixed' end` })
    .where('comparison', '=', comparison)
    .where('position', '=', position)
    .where(sql<boolean>`isolation is distinct from ${isolation} and isolation is distinct from 'mixed'`)
    .execute()

export const readStoredSource = async (db: Db, key: number): Promise<unknown> =>
  (await db.selectFrom('comparisons').select('source').where('key', '=', key).executeTakeFirstOrThrow()).source

type FrozenTaskRow = { name: string; digest: string; run_id: string | null; task_id: string | null }
export type FrozenTasks = { digest: string; tasks: FrozenTaskRow[] }

/** Stores the frozen tasks and advances to planning. The source is cleared, because it is no longer needed. */
export async function storeFrozen(tx: Db, key: number, frozen: FrozenTasks) {
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

export const advanceToEnqueue = (tx: Db, key: number) =>
  tx.updateTable('comparisons').set({ step: 'enqueue' }).where('key', '=', key).execute()

/** Marks a comparison as running once its trials are queued. Returns false if it was canceled or paused meanwhile. */
export async function startRunning(tx: Db, key: number): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('comparisons')
    .set({ state: 'running', step: 'done', submission_error: null, pause: null, finished_at: null })
    .set({ submitted_at: sql<Date>`coalesce(submitted_at, now())` })
    .where('key', '=', key)
    .where('state', 'in', ['submitting', 'running'])
    .where('step', '=', 'enqueue')
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

/** Returns true if the submission was open. */
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

/** Reopens a comparison at its unfinished step. A submitted one goes back to `enqueue`: waiting trials need jobs again. */
export const reopenComparison = (tx: Db, key: number, state: 'submitting' | 'running') =>
  tx
    .updateTable('comparisons')
    .set({
      state,
      submission_error: null,
      pause: null,
      finished_at: null,
      submit_asked_at: sql<Date>`now()`,
      step: sql<'enqueue'>`case step when 'done' then 'enqueue' else step end`,
    })
    .where('key', '=', key)
    .execute()

/** Returns true if the comparison was running. */
export async function pauseRow(tx: Db, key: number, pause: ComparisonPause): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('comparisons')
    .set({ state: 'paused', pause: JSON.stringify(pause) })
    .where('key', '=', key)
    .where('state', '=', 'running')
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

export const endComparison = (tx: Db, key: number, state: 'completed' | 'canceled') =>
  tx
    .updateTable('comparisons')
    .set({ state, pause: null, submission_error: null, finished_at: sql<Date>`now()` })
    .where('key', '=', key)
    .execute()

export const recordStarted = (db: Db, key: number) =>
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

/** Protects the stored credentials of a comparison from deletion. Environment and built-in ones cannot be deleted. */
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

/** Lists running comparisons without open trials: the worker that should have completed them died. */
export async function listCompletable(db: Db): Promise<number[]> {
  const { rows } = await sql<{ key: number }>`
    select key from comparisons where state = 'running' and not exists (
      select from trial_counts where comparison = comparisons.key and (queued > 0 or running > 0)
    )`.execute(db)
  return rows.map(({ key }) => key)
}

type SettingFilter = { catalog_id: string } | { harness: string }

export async function hasOpenSettings(db: Db, workspaceId: string, filter: SettingFilter): Promise<boolean> {
  const row = await db
    .selectFrom('comparison_settings')
    .innerJoin('comparisons', 'comparisons.key', 'comparison_settings.comparison')
    .select('comparisons.key')
    .where('workspace_id', '=', workspaceId)
    .where((where) => where.and(filter))
    .where('state', 'in', OPEN_STATES)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Lists the settings of every comparison of a repository, oldest first. */
export const listRepositorySettings = (db: Db, repository: number) =>
  db
    .selectFrom('comparison_settings as setting')
    .innerJoin('comparisons', 'comparisons.key', 'setting.comparison')
    .select(['setting.comparison', 'setting.position', 'setting.id', 'setting.catalog_id', 'setting.name'])
    .select(['setting.label', 'setting.provider', 'setting.custom', 'setting.harness', 'setting.harness_version'])
    .select(['setting.reasoning_level', 'comparisons.sandbox', 'comparisons.created_at', 'setting.timeout_multiplier'])
    .select(['setting.configuration', 'setting.configuration_version', 'setting.configuration_digest'])
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

/** Finished trials of one setting, column by column: much faster than one row per trial. */
export type EndedTrials = {
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
  agent_seconds: (number | null)[]
  /** Key of the trial that ran, also where it is reused. */
  origins: number[]
  ordinals: number[]
  voided: boolean[]
}

/**
 * Lists the finished trials of the comparisons, scored or not, grouped by setting. There may be millions that reuse a trial
 * of an older listed comparison. They are left out, unless they are voided or the first of their setting.
 */
export async function listEndedTrials(db: Db, comparisons: readonly number[]) {
  const { rows } = await sql<EndedTrials>`
    with first as materialized (select comparison, setting, min(ordinal) as ordinal from trials
      where comparison = any(${comparisons}::bigint[]) and state in ('passed', 'failed', 'errored') group by 1, 2)
    select trials.comparison, trials.setting, json_agg(trials.task) as tasks, json_agg(trials.attempt) as attempts,
      json_agg(trials.state) as states, json_agg(trials.verify_mode) as verify_modes,
      json_agg(trials.cost_micros) as cost_micros, json_agg(trials.detail->'costSource') as cost_sources,
      json_agg(trials.detail->'isolation') as isolations, json_agg(trials.detail->'usage') as usages,
      json_agg(trials.detail->'resources') as resources, json_agg(trials.detail->'timings'->'agent') as agent_seconds,
      json_agg(coalesce(trials.reused_comparison, trials.comparison)) as origins,
      json_agg(coalesce(trials.reused_ordinal, trials.ordinal)) as ordinals,
      json_agg(trials.voided_at is not null or origin.voided_at is not null) as voided
    from trials
    join first on first.comparison = trials.comparison and first.setting = trials.setting
    join comparisons on comparisons.key = trials.comparison
    left join trials as origin on (origin.comparison, origin.ordinal) = (trials.reused_comparison, trials.reused_ordinal)
    left join comparisons as older on older.key = trials.reused_comparison
      and older.key = any(${comparisons}::bigint[]) and older.created_at < comparisons.created_at
    where trials.comparison = any(${comparisons}::bigint[]) and trials.state in ('passed', 'failed', 'errored')
      and (older.key is null or trials.voided_at is not null or origin.voided_at is not null or trials.ordinal = first.ordinal)
    group by trials.comparison, trials.setting`.execute(db)
  return rows
}
