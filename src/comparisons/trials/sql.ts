import { sql } from 'kysely'
import { type Db, executePrepared, storableJson, storableText } from '../../platform/db/db.ts'
import { CALIBRATION_RULES_VERSION } from '../../trials/calibrate.ts'
import { COUNT_NAMES, type CountChanges, type CountRow, toCountPart } from '../counts.ts'
import type { CompletedTrial, PlannedTrial } from '../plan.ts'
import type { TrialClass, TrialState } from '../shapes/schema.ts'

export type TrialKey = { comparison: number; ordinal: number }

export async function insertPlan(
  tx: Db,
  comparison: number,
  trials: readonly PlannedTrial[],
  counts: readonly CountRow[],
) {
  await sql`
    insert into trials (comparison, ordinal, task, setting, attempt, state, class, verify_mode, reward, cost_micros,
      reused_comparison, reused_ordinal, started_at, finished_at, detail, artifacts)
    select ${comparison}, plan.ordinal, plan.task, plan.setting, plan.attempt, coalesce(old.state, 'queued'), old.class,
      old.verify_mode, old.reward, old.cost_micros, old.comparison, old.ordinal, old.started_at, old.finished_at,
      old.detail - 'artifacts', null
    from unnest(
      ${trials.map(({ ordinal }) => ordinal)}::int[], ${trials.map(({ task }) => task)}::int[],
      ${trials.map(({ setting }) => setting)}::int[], ${trials.map(({ attempt }) => attempt)}::int[],
      ${trials.map(({ reused }) => reused?.comparison ?? null)}::bigint[],
      ${trials.map(({ reused }) => reused?.ordinal ?? null)}::int[]
    ) as plan (ordinal, task, setting, attempt, old_comparison, old_ordinal)
    left join trials as old on old.comparison = plan.old_comparison and old.ordinal = plan.old_ordinal`.execute(tx)
  await tx
    .insertInto('trial_counts')
    .values(counts.map((row) => ({ comparison, ...row })))
    .execute()
}

/** Lists scored trials of the workspace that ran under the same conditions, oldest first. */
export async function listReusable(db: Db, comparison: number): Promise<CompletedTrial[]> {
  const { rows } = await sql<CompletedTrial>`
    select task.position as task, setting.position as setting, old.comparison, old.ordinal, old.state,
      old.cost_micros as "costMicros"
    from comparisons as own
    join comparison_settings as setting on setting.comparison = own.key
    join comparison_settings as other_setting on other_setting.id = setting.id
      and other_setting.harness_version = setting.harness_version
    join comparisons as other on other.key = other_setting.comparison and other.workspace_id = own.workspace_id
      and other.sandbox = own.sandbox and other.key <> own.key
    join comparison_tasks as other_task on other_task.comparison = other.key
    join comparison_tasks as task on task.comparison = own.key and task.digest = other_task.digest
    join task_calibrations as calibration on calibration.digest = task.digest and calibration.sandbox = own.sandbox
      and calibration.rules = ${CALIBRATION_RULES_VERSION}
    join trials as old on old.comparison = other.key and old.setting = other_setting.position
      and old.task = other_task.position
    where own.key = ${comparison} and old.state in ('passed', 'failed') and old.reused_comparison is null
      and old.voided_at is null and old.verify_mode = calibration.verify_mode
      -- An older trial was verified by other rules, or in mode snapshot with other files.
      and old.finished_at >= calibration.at
    order by other.created_at, other.key, old.attempt`.execute(db)
  return rows
}

export type TrialFacts = TrialKey & {
  /** State before the trial was started. */
  state: TrialState
  comparisonState: string
  task: number
  setting: number
  attempt: number
  retries: number
  tasks: number
  settings: number
  attempts: number
  workspaceId: string
  sandbox: string
  sandboxCredentialId: string
  credentialId: string
  catalogId: string
  provider: string
  trialBudgetMicros: number | null
  /** Budget of the comparison. Null if it has none; its trials then start without admission. */
  budgetMicros: number | null
  harness: string
  harnessVersion: string
  reasoningLevel: string
  configurationDigest: string | null
  timeoutMultiplier: number | null
  isolation: string | null
  taskName: string
  digest: string
  submittedAt: Date
  concurrency: number | null
  /** True if no trial of the comparison has started before. */
  isFirstOfComparison: boolean
  /** This and the next three come from the calibration. Null if the task is not calibrated for the sandbox. */
  verifyMode: string | null
  agentNetwork: string | null
  verifierNetwork: string | null
  /** Paths that the verifier takes over from the agent by name. */
  carried: string[] | null
}

/**
 * Moves a trial from `queued` to `running` if its comparison is running and either has no budget or admitted the trial.
 * Returns everything needed to run it, with its previous state. The commit is asynchronous: if a database crash undoes
 * it, the trial is still queued and the attempt does not count.
 */
export async function startTrial(
  db: Db,
  { comparison, ordinal }: TrialKey,
  { isAdmitted = false }: { isAdmitted?: boolean } = {},
): Promise<TrialFacts | undefined> {
  const query = sql<TrialFacts>`
    with found as materialized (
      select trials.comparison, ordinal, task, setting, attempt, trials.state, retries,
        comparisons.state as comparison_state, budget_micros
      from trials join comparisons on comparisons.key = trials.comparison
      where comparison = ${comparison} and ordinal = ${ordinal} for update of trials
    ), started as (
      update trials set state = 'running', started_at = now(), changed = pg_current_xact_id()
      from found where trials.comparison = ${comparison} and trials.ordinal = ${ordinal}
        and found.state = 'queued' and found.comparison_state = 'running'
        and (found.budget_micros is null or ${isAdmitted})
      returning trials.setting
    ), counted as (
      update trial_counts set queued = queued - 1, running = running + 1 from started
      where trial_counts.comparison = ${comparison} and trial_counts.setting = started.setting
        and part = ${toCountPart(ordinal)}
    )
    select found.comparison, found.ordinal, found.state, found.comparison_state as "comparisonState",
      found.budget_micros as "budgetMicros", found.task, found.setting, found.attempt, found.retries,
      comparisons.tasks, comparisons.settings, comparisons.attempts, comparisons.workspace_id as "workspaceId",
      comparisons.sandbox, comparisons.sandbox_credential_id as "sandboxCredentialId",
      setting.credential_id as "credentialId", setting.catalog_id as "catalogId", setting.harness, setting.provider,
      setting.harness_version as "harnessVersion", comparisons.trial_budget_micros as "trialBudgetMicros",
      setting.reasoning_level as "reasoningLevel", setting.isolation, task.name as "taskName", task.digest,
      setting.configuration_digest as "configurationDigest", setting.timeout_multiplier as "timeoutMultiplier",
      comparisons.submitted_at as "submittedAt", comparisons.concurrency,
      comparisons.started_at is null as "isFirstOfComparison", calibration.verify_mode as "verifyMode",
      calibration.agent_network as "agentNetwork", calibration.verifier_network as "verifierNetwork",
      calibration.carried,
      set_config('synchronous_commit', 'off', true)
    from found
    join comparisons on comparisons.key = ${comparison}
    join comparison_settings as setting on setting.comparison = ${comparison} and setting.position = found.setting
    join comparison_tasks as task on task.comparison = ${comparison} and task.position = found.task
    left join task_calibrations as calibration
      on calibration.digest = task.digest and calibration.sandbox = comparisons.sandbox
      and calibration.rules = ${CALIBRATION_RULES_VERSION}`
  const { rows } = await executePrepared(db, query)
  return rows[0]
}

/** Locks trials in the order of their ordinals, which prevents deadlocks. */
export const lockTrials = (tx: Db, comparison: number, ordinals: readonly number[]) =>
  tx
    .selectFrom('trials')
    .select(['ordinal', 'attempt', 'setting', 'state', 'cost_micros', 'voided_at', 'started_at', 'artifacts'])
    .where('comparison', '=', comparison)
    .where('ordinal', 'in', [...ordinals])
    .orderBy('ordinal')
    .forUpdate()
    .execute()

export async function findTrialState(db: Db, { comparison, ordinal }: TrialKey): Promise<TrialState | undefined> {
  const row = await db
    .selectFrom('trials')
    .select('state')
    .where('comparison', '=', comparison)
    .where('ordinal', '=', ordinal)
    .executeTakeFirst()
  return row?.state
}

export type TrialEnd = {
  state: TrialState
  class: TrialClass | null
  verifyMode: string | null
  reward: number | null
  costMicros: number | null
  retries: number
  detail: unknown
  artifacts: string | null
}

type CountPart = { comparison: number; setting: number; part: number }

/** Adds to every counter, even if only 0, so that the statement text is constant and can be prepared. */
const toIncrements = (changes: CountChanges) =>
  sql.join(COUNT_NAMES.map((name) => sql`${sql.ref(name)} = ${sql.ref(name)} + ${changes[name] ?? 0}`))

/**
 * Stores the end of an attempt and its counts in one statement. Returns the number of open trials in this count row, or
 * undefined if the trial was not running.
 */
export async function storeEnd(
  tx: Db,
  { ordinal, comparison, setting }: TrialKey & { setting: number },
  end: TrialEnd,
  changes: CountChanges,
): Promise<number | undefined> {
  const query = sql<{ open: number }>`
    with ended as (
      update trials set state = ${end.state}, class = ${end.class}, verify_mode = ${end.verifyMode},
        reward = ${end.reward}, cost_micros = ${end.costMicros}, retries = ${end.retries},
        detail = ${end.detail === null ? null : storableJson(end.detail)}, artifacts = ${end.artifacts},
        finished_at = case when ${end.state}::text = 'queued' then null else now() end, changed = pg_current_xact_id()
      where comparison = ${comparison} and ordinal = ${ordinal} and state = 'running'
      returning ordinal
    )
    update trial_counts set ${toIncrements(changes)} from ended
    where comparison = ${comparison} and setting = ${setting} and part = ${toCountPart(ordinal)}
    returning queued + running as open`
  const { rows } = await executePrepared(tx, query)
  return rows[0]?.open
}

export async function addCounts(
  tx: Db,
  { comparison, setting, part }: CountPart,
  changes: CountChanges,
): Promise<void> {
  if (Object.values(changes).every((change) => change === 0)) return
  await sql`update trial_counts set ${toIncrements(changes)}
    where comparison = ${comparison} and setting = ${setting} and part = ${part}`.execute(tx)
}

/**
 * Adds spend that was settled after a trial ended: to the trial, to the spend of its setting, and to the cost of its task
 * if this trial is the task's result.
 */
export async function addSpend(tx: Db, { comparison, ordinal }: TrialKey, micros: number): Promise<void> {
  const { rows } = await sql<{ isTaskResult: boolean | null }>`
    with cell as materialized (
      select ordinal, attempt, state in ('passed', 'failed') and voided_at is null as is_scored from trials
      where comparison = ${comparison} and (task, setting) = (
        select task, setting from trials where comparison = ${comparison} and ordinal = ${ordinal})
      order by ordinal for update
    )
    update trials set cost_micros = cost_micros + ${micros}, changed = pg_current_xact_id()
    where comparison = ${comparison} and ordinal = ${ordinal} and cost_micros is not null
    returning (select ordinal from cell where is_scored order by attempt limit 1) = ordinal as "isTaskResult"`.execute(
    tx,
  )
  if (rows[0]?.isTaskResult)
    await sql`update trial_counts set tasks_micros = tasks_micros + ${micros} from trials
      where trials.comparison = ${comparison} and trials.ordinal = ${ordinal} and trial_counts.comparison = ${comparison}
        and trial_counts.setting = trials.setting and part = ${toCountPart(ordinal)}`.execute(tx)
  await sql`update trial_counts set spent_micros = spent_micros + ${micros} from trials
    where trials.comparison = ${comparison} and trials.ordinal = ${ordinal} and trial_counts.comparison = ${comparison}
      and trial_counts.setting = trials.setting and part = ${toCountPart(ordinal)}`.execute(tx)
}

type NewFailedAttempt = TrialKey & {
  number: number
  class: string
  error: string
  detail: unknown
  artifacts: string | null
}

export const insertFailedAttempt = (tx: Db, attempt: NewFailedAttempt) =>
  tx
    .insertInto('trial_attempts')
    .values({ ...attempt, error: storableText(attempt.error), detail: storableJson(attempt.detail) })
    .onConflict((conflict) => conflict.columns(['comparison', 'ordinal', 'number']).doNothing())
    .execute()

export const listFailedAttempts = (db: Db, { comparison, ordinal }: TrialKey) =>
  db
    .selectFrom('trial_attempts')
    .select(['class', 'error', 'at'])
    .where('comparison', '=', comparison)
    .where('ordinal', '=', ordinal)
    .orderBy('number')
    .execute()

export async function listOrdinals(db: Db, comparison: number, state: TrialState): Promise<number[]> {
  const rows = await db
    .selectFrom('trials')
    .select('ordinal')
    .where('comparison', '=', comparison)
    .where('state', '=', state)
    .orderBy('ordinal')
    .execute()
  return rows.map(({ ordinal }) => ordinal)
}

/** Cancels all open trials and returns their ordinals. Lock order: trials before counts. */
export async function cancelTrialRows(tx: Db, comparison: number): Promise<number[]> {
  const { rows } = await sql<{ ordinal: number }>`
    update trials set state = 'canceled', finished_at = now(), changed = pg_current_xact_id()
    where comparison = ${comparison} and state in ('queued', 'running') returning ordinal`.execute(tx)
  await sql`update trial_counts set canceled = canceled + queued + running, queued = 0, running = 0
    where comparison = ${comparison}`.execute(tx)
  return rows.map(({ ordinal }) => ordinal)
}

/** Queues trials again and resets their number of retries. Returns false if no trial was in that state. */
export async function requeueTrialRows(tx: Db, comparison: number, from: 'errored' | 'canceled'): Promise<boolean> {
  const { numAffectedRows = 0n } =
    await sql`update trials set state = 'queued', class = null, retries = 0, finished_at = null, started_at = null,
      detail = null, changed = pg_current_xact_id()
    where comparison = ${comparison} and state = ${from}`.execute(tx)
  const column = sql.ref(from)
  await sql`update trial_counts set queued = queued + ${column}, ${column} = 0
    where comparison = ${comparison}`.execute(tx)
  return numAffectedRows > 0n
}

export async function hasOpenTrials(db: Db, comparison: number): Promise<boolean> {
  const { rows } = await sql<{ open: boolean }>`select exists (
    select from trial_counts where comparison = ${comparison} and (queued > 0 or running > 0)) as open`.execute(db)
  return rows[0]?.open ?? false
}

export type TrialRow = Awaited<ReturnType<typeof listTrialRows>>[number]
export type TrialFilter = {
  setting?: number | undefined
  task?: number | undefined
  state?: TrialState | undefined
  class?: TrialClass | undefined
  /** Ordinal after which the list starts. */
  after?: number | undefined
  limit: number
}

export const listTrialRows = (db: Db, comparison: number, filter: TrialFilter) =>
  db
    .selectFrom('trials')
    .leftJoin('trial_voids', (join) =>
      join
        .onRef('trial_voids.comparison', '=', 'trials.comparison')
        .onRef('trial_voids.ordinal', '=', 'trials.ordinal'),
    )
    .select(['trials.comparison', 'trials.ordinal', 'trials.task', 'trials.setting', 'trials.attempt', 'trials.state'])
    .select(['trials.class', 'trials.verify_mode', 'trials.retries', 'trials.reward', 'trials.cost_micros'])
    .select(['trials.reused_comparison', 'trials.reused_ordinal', 'trials.started_at', 'trials.detail'])
    .select('trials.artifacts')
    .select(['trial_voids.reason as void_reason', 'trial_voids.at as void_at'])
    .where('trials.comparison', '=', comparison)
    .$if(filter.setting !== undefined, (query) => query.where('setting', '=', filter.setting ?? -1))
    .$if(filter.task !== undefined, (query) => query.where('task', '=', filter.task ?? -1))
    .$if(filter.state !== undefined, (query) => query.where('state', '=', filter.state ?? 'queued'))
    .$if(filter.class !== undefined, (query) => query.where('class', '=', filter.class ?? ''))
    .$if(filter.after !== undefined, (query) => query.where('trials.ordinal', '>', filter.after ?? -1))
    .orderBy('trials.ordinal')
    .limit(filter.limit)
    .execute()

/** Returns true if a trial of the comparison reuses this trial of another comparison. */
export async function isTrialReusedBy(db: Db, comparison: number, source: TrialKey): Promise<boolean> {
  const row = await db
    .selectFrom('trials')
    .select('ordinal')
    .where('comparison', '=', comparison)
    .where('reused_comparison', '=', source.comparison)
    .where('reused_ordinal', '=', source.ordinal)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

export async function storeVoid(tx: Db, { comparison, ordinal }: TrialKey, reason: string): Promise<void> {
  await tx.insertInto('trial_voids').values({ comparison, ordinal, reason }).execute()
  await tx
    .updateTable('trials')
    .set({ voided_at: sql<Date>`now()`, changed: sql<string>`pg_current_xact_id()` })
    .where('comparison', '=', comparison)
    .where('ordinal', '=', ordinal)
    .execute()
}

export const listTrialStates = (db: Db, comparison: number) =>
  db.selectFrom('trials').select(['ordinal', 'state']).where('comparison', '=', comparison).orderBy('ordinal').execute()

/** Returns the current snapshot. `listChangedTrials` lists what became visible after it. */
export async function readCurrentSnapshot(db: Db): Promise<string> {
  const { rows } = await sql<{ snapshot: string }>`select pg_current_snapshot()::text as snapshot`.execute(db)
  return rows[0]?.snapshot ?? ''
}

/** Lists trials changed by transactions that the snapshot does not see, including ones that started before it. */
export async function listChangedTrials(db: Db, comparison: number, snapshot: string, limit: number) {
  const { rows } = await sql<Pick<TrialRow, 'ordinal' | 'task' | 'setting' | 'attempt' | 'state' | 'class' | 'reward'>>`
    select ordinal, task, setting, attempt, state, class, reward from trials
    where comparison = ${comparison} and changed >= pg_snapshot_xmin(${snapshot}::pg_snapshot)
      and not pg_visible_in_snapshot(changed, ${snapshot}::pg_snapshot)
    order by changed, ordinal limit ${limit}`.execute(db)
  return rows
}
