import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'

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
