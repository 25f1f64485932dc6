import { z } from 'zod'
import type { Db } from '../../platform/db/db.ts'
import { cancelAll, enqueueAll, type JobKind, setLimit, withdrawAll } from '../../platform/jobs/jobs.ts'
import { trialId } from '../trial-id.ts'
import { cancelOpen, listOrdinals, requeue } from './sql.ts'

const TrialPayload = z.strictObject({ comparison: z.number().int(), ordinal: z.number().int() })
export type TrialPayload = z.infer<typeof TrialPayload>

/** A kind of its own for each sandbox: a worker takes only what it can run. */
export const trialKind = (sandbox: string): JobKind<TrialPayload> => ({
  kind: `trial.${sandbox}`,
  payload: TrialPayload,
})

/** What a trial's place in the queue depends on. */
export type Queue = {
  key: number
  sandbox: string
  sandboxCredentialId: string
  concurrency: number | null
  firstTurn: number
}

/** One limit for each job: the comparison's own, or else that of the sandbox credential. */
const limitKeyOf = ({ key, concurrency, sandboxCredentialId }: Queue): string =>
  concurrency === null ? `sandbox ${sandboxCredentialId}` : comparisonLimit(key)

const comparisonLimit = (key: number): string => `comparison ${key}`

// Long ago: all of them are due.
const FIRST_TURN_MS = Date.UTC(2000, 0, 1)

/** Comparisons take turns: the n-th trial of each comes before the next of any. */
async function enqueueTrials(tx: Db, queue: Queue, ordinals: readonly number[], notBefore?: Date): Promise<void> {
  const limitKey = limitKeyOf(queue)
  await enqueueAll(
    tx,
    trialKind(queue.sandbox),
    ordinals.map((ordinal) => ({
      id: trialId({ comparison: queue.key, ordinal }),
      payload: { comparison: queue.key, ordinal },
      limitKey,
      runAt: notBefore ?? new Date(FIRST_TURN_MS + 1000 * (queue.firstTurn + ordinal)),
    })),
  )
}

export const enqueueTrial = (tx: Db, queue: Queue, ordinal: number, notBefore?: Date): Promise<void> =>
  enqueueTrials(tx, queue, [ordinal], notBefore)

/** Every trial that waits has its job afterwards, and no more than one. */
export async function enqueueWaiting(tx: Db, queue: Queue): Promise<void> {
  if (queue.concurrency !== null) await setLimit(tx, comparisonLimit(queue.key), queue.concurrency)
  await enqueueTrials(tx, queue, await listOrdinals(tx, queue.key, 'queued'))
}

export const withdrawWaiting = async (tx: Db, key: number): Promise<void> =>
  withdrawAll(tx, idsOf(key, await listOrdinals(tx, key, 'queued')))

/** All that has not ended; the rows say so at once. Answers which they are. */
export const cancelTrials = (tx: Db, key: number): Promise<number[]> => cancelOpen(tx, key)

/**
 * After their cancel is committed: sandboxes that run end soon. A job that is left over does no harm, it finds its trial
 * canceled. Not in one transaction with the cancel, which would wait for jobs that wait for it.
 */
export async function stopJobs(db: Db, key: number, ordinals: readonly number[]): Promise<void> {
  await withdrawAll(db, idsOf(key, ordinals))
  await cancelAll(db, idsOf(key, ordinals))
  await liftLimit(db, key)
}

export const requeueTrials = (tx: Db, key: number, from: 'errored' | 'canceled'): Promise<void> =>
  requeue(tx, key, from)

export const liftLimit = (tx: Db, key: number): Promise<void> => setLimit(tx, comparisonLimit(key), null)

const idsOf = (comparison: number, ordinals: readonly number[]): string[] =>
  ordinals.map((ordinal) => trialId({ comparison, ordinal }))
