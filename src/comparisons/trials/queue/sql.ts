import { sql } from 'kysely'
import { DEFAULT_LIMITS } from '../../../harbor/limits.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { AgentHandover } from '../../../trials/agent-handover.ts'
import { CALIBRATION_RULES_VERSION } from '../../../trials/calibrate.ts'
import { formatTrialId } from '../../plan.ts'
import type { PastUsage } from '../../quote.ts'
import { toSharedBudgetId } from '../../sql.ts'
import type { TrialKey } from '../sql.ts'

/** Memory sizes from 256 MB to 1.5 TB, two per doubling. */
const MEMORY_STEPS = Array.from({ length: 13 }, (_, power) => [2 ** power * 256, 2 ** power * 384]).flat()

type TrialJobsFilter = { ordinal?: number | undefined; notBefore?: Date | undefined }

/**
 * Selects the jobs of waiting trials: all, or one. Workspaces take turns, and so do the comparisons of a workspace; within
 * a comparison the ordinal decides: it becomes a time in the past, because jobs start in the order of `run_at`. Trials that
 * wait until `notBefore` come later. Memory is rounded up to a step, which keeps the number of queue classes small.
 */
export const selectTrialJobs = (comparison: number, { ordinal, notBefore }: TrialJobsFilter) =>
  sql`
    select (${formatTrialId({ comparison, ordinal: 0 }).slice(0, 24)} || lpad(to_hex(ordinal), 12, '0'))::uuid as id,
      jsonb_build_object('comparison', comparison, 'ordinal', ordinal) as payload, 0 as priority,
      (select workspace_id || '/' || key from comparisons where key = ${comparison}) as fair_group,
      -- Each array is computed once. A join with these tables, which were just filled, would look up a row per trial.
      (array(
        select case when concurrency is null then '[]' else jsonb_build_array('comparison ' || key) end
          || jsonb_build_array('model ' || credential_id, 'sandbox ' || sandbox_credential_id)
        from comparison_settings join comparisons on key = comparison where key = ${comparison} order by position
      ))[setting + 1] as limit_keys,
      (array(
        select (
          select coalesce(min(step), ${MEMORY_STEPS.at(-1)}) from unnest(${MEMORY_STEPS}::int[]) as step
          where step >= coalesce(memory_mb, ${DEFAULT_LIMITS.memoryMb})
        )
        from comparison_tasks join task_contents using (digest) where comparison = ${comparison} order by position
      ))[task + 1] as memory_mb,
      coalesce(${notBefore ?? null}::timestamptz, '2000-01-01'::timestamptz + ordinal * interval '1 s') as run_at
    from trials
    where comparison = ${comparison} and state = 'queued'
      and ordinal between ${ordinal ?? 0} and ${ordinal ?? 2_147_483_647}`

export const analyzeTrials = (db: Db) => sql`analyze trials`.execute(db)

export const findCalibration = (db: Db, digest: string, sandbox: string) =>
  db
    .selectFrom('task_calibrations')
    .select([
      'verify_mode as verifyMode',
      'agent_network as agentNetwork',
      'verifier_network as verifierNetwork',
      'carried',
      'reason',
    ])
    .where('digest', '=', digest)
    .where('sandbox', '=', sandbox)
    .where('rules', '=', CALIBRATION_RULES_VERSION)
    .executeTakeFirst()

type NewCalibration = { digest: string; sandbox: string; carried: string[] } & Record<
  'verify_mode' | 'agent_network' | 'verifier_network' | 'reason',
  string | null
>

/** Stores a calibration. Replaces one that was made by other rules. */
export const insertCalibration = (db: Db, calibration: NewCalibration) => {
  const row = { ...calibration, rules: CALIBRATION_RULES_VERSION }
  return db
    .insertInto('task_calibrations')
    .values(row)
    .onConflict((conflict) =>
      conflict
        .columns(['digest', 'sandbox'])
        .doUpdateSet({ ...row, at: sql`now()` })
        .where('task_calibrations.rules', '<>', CALIBRATION_RULES_VERSION),
    )
    .execute()
}

/** Runs `work` under an advisory lock, which is released when its connection closes. Returns undefined if it is taken. */
export const withTryLock = <T>(db: Db, name: string, work: () => Promise<T>): Promise<{ result: T } | undefined> =>
  db.connection().execute(async (connection) => {
    const { rows } = await sql<{ held: boolean }>`
      select pg_try_advisory_lock(hashtextextended(${name}, 0)) as held`.execute(connection)
    if (!rows[0]?.held) return undefined
    try {
      return { result: await work() }
    } finally {
      await sql`select pg_advisory_unlock(hashtextextended(${name}, 0))`.execute(connection)
    }
  })

type ForecastRow = {
  id: string
  catalogId: string
  provider: string
  reasoningLevel: string
  queued: number
  running: number
  metered: number
  spentMicros: number
}

/** Lists progress and spend of a comparison's settings, in their order. */
export async function listForecastRows(db: Db, comparison: number): Promise<ForecastRow[]> {
  const { rows } = await sql<ForecastRow>`
    select setting.id, catalog_id as "catalogId", provider, reasoning_level as "reasoningLevel",
      sum(queued)::int as queued, sum(running)::int as running, sum(metered)::int as metered,
      sum(spent_micros)::bigint as "spentMicros"
    from comparison_settings as setting
    join trial_counts on trial_counts.comparison = setting.comparison and trial_counts.setting = setting.position
    where setting.comparison = ${comparison}
    group by setting.position, setting.id, catalog_id, provider, reasoning_level order by setting.position`.execute(db)
  return rows
}

/** Reads the spend of attempts that are not counted yet, including reservations of open calls. */
export async function readLiveSpend(db: Db, comparison: number): Promise<number> {
  const { rows } = await sql<{ micros: number }>`
    select coalesce(sum(spent_micros - counted_micros), 0)::bigint as micros from gateway_grants
    where shared_budget = ${toSharedBudgetId(comparison)} and counted_at is null`.execute(db)
  return rows[0]?.micros ?? 0
}

type SettingUsage = PastUsage & { id: string }

/** Lists the past usage of settings in this workspace. */
export async function listUsage(db: Db, workspaceId: string, ids: readonly string[]): Promise<SettingUsage[]> {
  const { rows } = await sql<SettingUsage>`
    select setting.id, sum(metered)::int as trials, sum(spent_micros)::bigint as micros,
      sum(spent_squares)::float8 as squares
    from comparisons join comparison_settings as setting on setting.comparison = comparisons.key
    join trial_counts on trial_counts.comparison = comparisons.key and trial_counts.setting = setting.position
    where workspace_id = ${workspaceId} and setting.id = any(${ids}::text[])
    group by setting.id having sum(metered) > 0`.execute(db)
  return rows
}

type SettingSpendRow = {
  id: string
  label: string
  harness: string
  reasoningLevel: string
  trials: number
  micros: number
}

/** Lists the settings with the highest cost of trials that have finished since a time. */
export async function listSettingSpend(db: Db, workspaceId: string, since: Date, limit: number) {
  const { rows } = await sql<SettingSpendRow>`
    select settings.id, max(label) as label, max(harness) as harness, max(reasoning_level) as "reasoningLevel",
      count(*)::int as trials, sum(cost_micros)::bigint as micros
    from comparisons
    join comparison_settings as settings on settings.comparison = comparisons.key and settings.provider <> 'none'
    join trials on trials.comparison = comparisons.key and trials.setting = settings.position
    where workspace_id = ${workspaceId} and coalesce(comparisons.finished_at, now()) >= ${since}
      and trials.finished_at >= ${since} and reused_comparison is null and cost_micros > 0
    group by settings.id order by micros desc, settings.id limit ${limit}`.execute(db)
  return rows
}

/**
 * Durations are read from this many comparisons and tasks of each: enough for a mean, at a cost that does not grow
 * with the history.
 */
const RECENT_COMPARISONS = 3
const RECENT_TASKS = 20

/** Lists the mean duration of recent scored trials of settings in this workspace. */
export async function listDurations(
  db: Db,
  workspaceId: string,
  ids: readonly string[],
): Promise<{ id: string; seconds: number }[]> {
  // Ordinals are computed as in `toOrdinal`, so that each trial is found by its primary key. `offset 0` keeps the planner
  // from scanning all trials instead.
  const { rows } = await sql<{ id: string; seconds: number }>`
    select wanted.id, avg(extract(epoch from trial.took))::float8 as seconds
    from unnest(${ids}::text[]) as wanted (id)
    cross join lateral (
      select key, settings, position from comparison_settings as setting join comparisons on key = setting.comparison
      where setting.id = wanted.id and workspace_id = ${workspaceId} and started_at is not null
      order by key desc limit ${RECENT_COMPARISONS}
    ) as recent
    cross join generate_series(0, ${RECENT_TASKS - 1}::int) as task
    cross join lateral (
      select finished_at - started_at as took from trials
      where comparison = recent.key and ordinal = task * recent.settings + recent.position
        and state in ('passed', 'failed') and reused_comparison is null and finished_at >= started_at
      offset 0
    ) as trial
    group by wanted.id`.execute(db)
  return rows
}

/**
 * Selects trials with artifacts that finished more than `days` ago. A comparison that has not ended keeps all of its
 * artifacts.
 */
const selectOldArtifacts = (db: Db, days: number) =>
  db
    .selectFrom('trials')
    .innerJoin('comparisons', 'comparisons.key', 'trials.comparison')
    .where('trials.artifacts', 'is not', null)
    .where('trials.finished_at', '<', sql<Date>`now() - make_interval(days => ${days})`)
    .where('comparisons.state', 'in', ['completed', 'canceled'])

export const listOldArtifacts = (db: Db, days: number, limit: number) =>
  selectOldArtifacts(db, days).select(['trials.comparison', 'trials.ordinal']).limit(limit).execute()

/** Counts the trials that `listOldArtifacts` lists, without a limit, and the bytes of their artifacts. */
export const measureOldArtifacts = (db: Db, days: number) =>
  selectOldArtifacts(db, days)
    .select([
      sql<number>`count(*)::int`.as('count'),
      sql<string>`coalesce(sum((select sum((artifact ->> 'bytes')::bigint)
        from jsonb_array_elements(trials.detail -> 'artifacts') as artifact)), 0)`.as('bytes'),
    ])
    .executeTakeFirstOrThrow()

/** Locks a trial that `listOldArtifacts` has listed. Undefined if it has run again since. */
export const lockOldArtifacts = (tx: Db, { comparison, ordinal }: TrialKey, days: number) =>
  selectOldArtifacts(tx, days)
    .select('trials.artifacts')
    .where('trials.comparison', '=', comparison)
    .where('trials.ordinal', '=', ordinal)
    .forUpdate('trials')
    .executeTakeFirst()

/** Reads the total size of a workspace's trial files. It includes files of attempts that were repeated. */
export async function readTrialFileTotal(db: Db, workspaceId: string): Promise<number> {
  const total = await db
    .selectFrom('trial_file_totals')
    .select('bytes')
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirst()
  return Number(total?.bytes ?? 0)
}

type NewTrialFiles = TrialKey & { blob: string; workspaceId: string; bytes: number }

/** Records a blob and adds it to the total. An attempt that stores the same files again only renews it. */
export const upsertTrialFiles = (db: Db, { blob, workspaceId, comparison, ordinal, bytes }: NewTrialFiles) =>
  sql`with stored as (
      insert into trial_files (blob, workspace_id, comparison, ordinal, bytes)
      values (${blob}, ${workspaceId}, ${comparison}, ${ordinal}, ${bytes})
      on conflict (blob) do update set stored_at = now() returning xmax = 0 as is_new
    )
    insert into trial_file_totals (workspace_id, bytes) select ${workspaceId}, ${bytes} from stored where is_new
    on conflict (workspace_id) do update set bytes = trial_file_totals.bytes + excluded.bytes`.execute(db)

/** Deletes the record of a blob and subtracts it from the total. */
export const deleteTrialFiles = (db: Db, blob: string) =>
  sql`with deleted as (delete from trial_files where blob = ${blob} returning workspace_id, bytes)
    update trial_file_totals set bytes = trial_file_totals.bytes - deleted.bytes from deleted
    where trial_file_totals.workspace_id = deleted.workspace_id`.execute(db)

/** Lists blobs that were stored more than a day ago, and to which their trial does not refer. */
export const listUnusedTrialFiles = (db: Db, limit: number) =>
  db
    .selectFrom('trial_files')
    .select('blob')
    .where('stored_at', '<', sql<Date>`now() - interval '1 day'`)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('trials')
            .select('trials.ordinal')
            .whereRef('trials.comparison', '=', 'trial_files.comparison')
            .whereRef('trials.ordinal', '=', 'trial_files.ordinal')
            .whereRef('trials.artifacts', '=', 'trial_files.blob'),
        ),
      ),
    )
    .orderBy('stored_at')
    .limit(limit)
    .execute()

export const clearArtifacts = (db: Db, { comparison, ordinal }: TrialKey) =>
  db
    .updateTable('trials')
    .set({ artifacts: null })
    .where('comparison', '=', comparison)
    .where('ordinal', '=', ordinal)
    .execute()

/** The sandbox of an agent that outlived its worker, and the grant with which it calls its model. */
export type RunningAgent = NonNullable<AgentHandover['agent']> & { grantId: string }

/**
 * Finds the agent that an earlier worker of a running trial left. Adds `unattendedMs`, the time since that worker last
 * reported, to the time during which no worker attended the agent.
 */
export const takeRunningAgent = (
  db: Db,
  { comparison, ordinal }: TrialKey,
  unattendedMs: number,
): Promise<RunningAgent | undefined> =>
  db
    .updateTable('running_agents')
    .set({ unattended_ms: sql<number>`unattended_ms + ${unattendedMs}` })
    .where('comparison', '=', comparison)
    .where('ordinal', '=', ordinal)
    .returning(['sandbox_id as sandboxId', 'grant_id as grantId', 'unattended_ms as unattendedMs'])
    .returning(
      sql<number>`greatest(0, extract(epoch from now() - started_at) * 1000 - unattended_ms)::float8`.as('elapsedMs'),
    )
    .executeTakeFirst()

/** Stores the agent of a running trial. A no-op for an adopted agent, whose sandbox is stored: it keeps its grant and times. */
export const recordRunningAgent = (
  db: Db,
  { comparison, ordinal }: TrialKey,
  { sandboxId, grantId }: Pick<RunningAgent, 'sandboxId' | 'grantId'>,
) =>
  sql`
    insert into running_agents as old (comparison, ordinal, sandbox_id, grant_id)
    values (${comparison}, ${ordinal}, ${sandboxId}, ${grantId})
    on conflict (comparison, ordinal) do update set sandbox_id = excluded.sandbox_id, grant_id = excluded.grant_id,
      started_at = excluded.started_at, unattended_ms = 0
      where old.sandbox_id <> excluded.sandbox_id`.execute(db)

export const deleteRunningAgent = (db: Db, { comparison, ordinal }: TrialKey) =>
  db.deleteFrom('running_agents').where('comparison', '=', comparison).where('ordinal', '=', ordinal).execute()

/** Lists the sandboxes that a worker may still adopt. */
export async function listAdoptableSandboxes(db: Db): Promise<Set<string>> {
  const rows = await db
    .selectFrom('running_agents')
    .innerJoin('trials', (join) =>
      join
        .onRef('trials.comparison', '=', 'running_agents.comparison')
        .onRef('trials.ordinal', '=', 'running_agents.ordinal'),
    )
    .select('sandbox_id')
    .where('trials.state', '=', 'running')
    .execute()
  return new Set(rows.map((row) => row.sandbox_id))
}
