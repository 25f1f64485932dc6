import { sql } from 'kysely'
import type { Db } from '../../../platform/db/db.ts'

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
    where shared_budget = ${`comparison ${comparison}`} and counted_at is null`.execute(db)
  return rows[0]?.micros ?? 0
}

export type SettingUsage = { id: string; trials: number; micros: number; squares: number }

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

/** Comparisons, and tasks in each, that durations are read from: enough for a mean, and independent of the history. */
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
    cross join generate_series(0, ${RECENT_TASKS - 1}::int) as place
    cross join lateral (
      select finished_at - started_at as took from trials
      where comparison = recent.key and ordinal = place * recent.settings + recent.position
        and state in ('passed', 'failed') and reused_comparison is null and finished_at >= started_at
      offset 0
    ) as trial
    group by wanted.id`.execute(db)
  return rows
}
