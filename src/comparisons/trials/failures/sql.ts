import { sql } from 'kysely'
import type { Db } from '../../../platform/db/db.ts'

export type FailureRow = {
  state: 'failed' | 'errored'
  class: string
  message: string | null
  trials: number
  settings: number[]
  tasks: number[]
  first: number
}

/** Lists trials that failed or have no result, grouped by class and exact message. Voided trials are left out. */
export async function listFailureRows(db: Db, comparison: number, limit: number): Promise<FailureRow[]> {
  const { rows } = await sql<FailureRow>`
    select state, class, coalesce(detail->>'explanation', detail->>'error') as message, count(*)::int as trials,
      array_agg(distinct setting) as settings, array_agg(distinct task) as tasks, min(ordinal) as first
    from trials where comparison = ${comparison} and state in ('failed', 'errored') and voided_at is null
    group by 1, 2, 3 order by trials desc, first limit ${limit}`.execute(db)
  return rows
}
