import type { Db } from '../../platform/db/db.ts'
import { cancelAll, deleteQueuedJobs, setLimit } from '../../platform/jobs/jobs.ts'
import { trialId } from '../trial-id.ts'
import { comparisonLimit, enqueueDeferred } from './enqueue/enqueue.ts'
import { cancelOpen, listOrdinals, requeue } from './sql.ts'

export const withdrawWaiting = async (tx: Db, key: number): Promise<void> =>
  deleteQueuedJobs(tx, idsOf(key, await listOrdinals(tx, key, 'queued')))

/** Waiting trials of a comparison are looked at again after `until`. */
export async function deferWaiting(tx: Db, trial: { comparison: number; sandbox: string }, until: Date): Promise<void> {
  await withdrawWaiting(tx, trial.comparison)
  await enqueueDeferred(tx, { key: trial.comparison, sandbox: trial.sandbox }, until)
}

/** All that has not ended; the rows say so at once. Answers which they are. */
export const cancelTrials = (tx: Db, key: number): Promise<number[]> => cancelOpen(tx, key)

/**
 * After their cancel is committed: sandboxes that run end soon. A job that is left over does no harm, it finds its trial
 * canceled. Not in one transaction with the cancel, which would wait for jobs that wait for it.
 */
export async function stopJobs(db: Db, key: number, ordinals: readonly number[]): Promise<void> {
  await deleteQueuedJobs(db, idsOf(key, ordinals))
  await cancelAll(db, idsOf(key, ordinals))
  await liftLimit(db, key)
}

export const requeueTrials = (tx: Db, key: number, from: 'errored' | 'canceled'): Promise<boolean> =>
  requeue(tx, key, from)

export const liftLimit = (tx: Db, key: number): Promise<void> => setLimit(tx, comparisonLimit(key), null)

const idsOf = (comparison: number, ordinals: readonly number[]): string[] =>
  ordinals.map((ordinal) => trialId({ comparison, ordinal }))
