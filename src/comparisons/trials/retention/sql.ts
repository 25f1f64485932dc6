import { sql } from 'kysely'
import type { Db } from '../../../platform/db/db.ts'
import type { TrialKey } from '../sql.ts'

/** Lists artifacts of trials that finished before. A comparison that has not ended keeps all of its artifacts. */
const oldArtifacts = (db: Db, days: number) =>
  db
    .selectFrom('trials')
    .innerJoin('comparisons', 'comparisons.key', 'trials.comparison')
    .where('trials.artifacts', 'is not', null)
    .where('trials.finished_at', '<', sql<Date>`now() - make_interval(days => ${days})`)
    .where('comparisons.state', 'in', ['completed', 'canceled'])

export const listOldArtifacts = (db: Db, days: number, limit: number) =>
  oldArtifacts(db, days).select(['trials.comparison', 'trials.ordinal', 'trials.artifacts']).limit(limit).execute()

/** Counts the trials with such artifacts and their bytes. */
export const measureOldArtifacts = (db: Db, days: number) =>
  oldArtifacts(db, days)
    .select([
      sql<number>`count(*)::int`.as('count'),
      sql<string>`coalesce(sum((select sum((artifact ->> 'bytes')::bigint)
        from jsonb_array_elements(trials.detail -> 'artifacts') as artifact)), 0)`.as('bytes'),
    ])
    .executeTakeFirstOrThrow()

export const clearArtifacts = (db: Db, { comparison, ordinal }: TrialKey) =>
  db
    .updateTable('trials')
    .set({ artifacts: null })
    .where('comparison', '=', comparison)
    .where('ordinal', '=', ordinal)
    .execute()
