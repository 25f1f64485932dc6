import { sql } from 'kysely'
import { type Db, executePrepared } from '../../platform/db/db.ts'
import type { ChangedTrial, EncodedTrials } from './trial-grid.ts'

/** Lists the scored trials of a comparison, grouped by setting. Voided trials are left out. */
export async function listScoredTrials(db: Db, comparison: number): Promise<EncodedTrials[]> {
  const { rows } = await executePrepared(
    db,
    sql<EncodedTrials>`
    select setting, json_agg(task)::text as tasks, json_agg(attempt)::text as attempts,
      json_agg((state = 'passed')::int)::text as outcomes, json_agg(cost_micros)::text as micros
    from trials
    where comparison = ${comparison} and state in ('passed', 'failed') and voided_at is null
    group by setting`,
  )
  return rows
}

/**
 * Lists the scored trials that have changed in a way that the snapshot does not show, up to `limit`. A scored trial stays
 * scored, so no other trials can affect the results.
 */
export async function listScoredSince(
  db: Db,
  comparison: number,
  snapshot: string,
  limit: number,
): Promise<ChangedTrial[]> {
  const { rows } = await executePrepared(
    db,
    sql<ChangedTrial>`
    select setting, task, attempt, state = 'passed' as "isPassed", voided_at is not null as "isVoided",
      cost_micros as micros
    from trials
    where comparison = ${comparison} and state in ('passed', 'failed')
      and changed >= pg_snapshot_xmin(${snapshot}::pg_snapshot)
      and not pg_visible_in_snapshot(changed, ${snapshot}::pg_snapshot)
    limit ${limit}`,
  )
  return rows
}
