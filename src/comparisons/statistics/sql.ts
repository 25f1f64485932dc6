import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import { executePrepared } from '../../platform/db/prepared.ts'

/** Results of one setting, column by column as JSON text: decoding is left to the thread that needs them. */
export type ResultRow = {
  setting: number
  tasks: string
  trials: string
  passes: string
  passed: string
  micros: string
}

/** Lists the scored trials of a comparison, summed per task and setting. Voided trials are left out. */
export async function listResultRows(db: Db, comparison: number): Promise<ResultRow[]> {
  const { rows } = await executePrepared(
    db,
    sql<ResultRow>`
    select setting, json_agg(task)::text as tasks, json_agg(trials)::text as trials,
      json_agg(passes)::text as passes, json_agg(passed)::text as passed, json_agg(micros)::text as micros
    from (
      select setting, task, count(*) as trials, count(*) filter (where state = 'passed') as passes,
        (array_agg((state = 'passed')::int order by attempt))[1] as passed,
        (array_agg(cost_micros order by attempt))[1] as micros
      from trials
      where comparison = ${comparison} and state in ('passed', 'failed') and voided_at is null
      group by setting, task
    ) as cells group by setting order by setting`,
  )
  return rows
}

/** True if the scored trials of a comparison have changed in a way that the snapshot does not show. */
export async function hasScoredSince(db: Db, comparison: number, snapshot: string): Promise<boolean> {
  const { rows } = await executePrepared(
    db,
    sql<{ changed: boolean }>`
    select exists (
      select from trials where comparison = ${comparison} and state in ('passed', 'failed')
        and changed >= pg_snapshot_xmin(${snapshot}::pg_snapshot)
        and not pg_visible_in_snapshot(changed, ${snapshot}::pg_snapshot)
    ) as changed`,
  )
  return rows[0]?.changed ?? true
}
