import { sql } from 'kysely'
import { DEFAULT_LIMITS } from '../../../harbor/limits.ts'
import type { Db } from '../../../platform/db/db.ts'
import { formatTrialId } from '../../trial-id.ts'

/** Memory sizes from 256 MB to 1.5 TB, two per doubling. */
const MEMORY_STEPS = Array.from({ length: 13 }, (_, power) => [2 ** power * 256, 2 ** power * 384]).flat()

type TrialJobsFilter = { ordinal?: number | undefined; notBefore?: Date | undefined }

/**
 * Selects the jobs of waiting trials: all, or one. Workspaces take turns, and so do the comparisons of a workspace; within
 * a comparison the ordinal decides, except for trials that wait until `notBefore`. Memory is rounded up to a step, which
 * keeps the number of queue classes small.
 */
export const trialJobs = (comparison: number, { ordinal, notBefore }: TrialJobsFilter) =>
  sql`
    select (${formatTrialId({ comparison, ordinal: 0 }).slice(0, 24)} || lpad(to_hex(ordinal), 12, '0'))::uuid as id,
      jsonb_build_object('comparison', comparison, 'ordinal', ordinal) as payload, 0 as priority,
      (select workspace_id || '/' || key from comparisons where key = ${comparison}) as fair_group,
      -- Arrays are computed once. Joins with a table that was just filled would be looked up for every trial.
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
