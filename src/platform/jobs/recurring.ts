import type { Db } from '../db/db.ts'
import { derivedId } from '../ids.ts'
import type { RunnableKind } from './jobs.ts'
import { upsertRecurring } from './sql.ts'

const PRIORITY = 100
const FAILURES_MAX = 5

export type RecurringJob = Parameters<typeof upsertRecurring>[1]

/** Its id comes from its kind, so any number of workers make one job. Throws when the kind wants more than `{}`. */
export const recurringJobs = (kinds: Iterable<RunnableKind>): RecurringJob[] =>
  [...kinds].flatMap(({ kind, payload, everySeconds, priority = PRIORITY, failuresMax = FAILURES_MAX }) => {
    if (everySeconds === undefined) return []
    const id = derivedId('recurring job', kind)
    return [{ id, kind, payload: payload.parse({}), priority, failuresMax, everySeconds }]
  })

export async function registerRecurring(db: Db, jobs: readonly RecurringJob[]): Promise<void> {
  for (const job of jobs) await upsertRecurring(db, job)
}
