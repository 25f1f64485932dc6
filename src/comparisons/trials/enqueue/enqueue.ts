import { z } from 'zod'
import type { Db } from '../../../platform/db/db.ts'
import {
  defineJobType,
  enqueueSelected,
  type JobType,
  refreshJobStatistics,
  setLimit,
} from '../../../platform/jobs/jobs.ts'
import { analyzeTrials, trialJobs } from './sql.ts'

const TrialPayload = z.strictObject({ comparison: z.number().int(), ordinal: z.number().int() })
export type TrialPayload = z.infer<typeof TrialPayload>

/** Each sandbox has its own job type: a worker claims only the types it can run. */
export const trialJobType = (sandbox: string): JobType<TrialPayload> =>
  defineJobType({ type: `trial.${sandbox}`, payload: TrialPayload })

export type CredentialLimits = { sandbox: number | undefined; model: number | undefined }

/** How many trials may run at once with any one credential, from now on. */
export async function limitCredentials(db: Db, { sandbox, model }: CredentialLimits): Promise<void> {
  await setLimit(db, 'sandbox', sandbox ?? null)
  await setLimit(db, 'model', model ?? null)
}

/** A trial takes a slot of each: of its comparison if that has a limit, of its sandbox's and of its model's credential. */
type Queue = { key: number; sandbox: string; concurrency: number | null }

export const comparisonLimit = (key: number): string => `comparison ${key}`

export const enqueueTrial = (tx: Db, queue: Queue, ordinal: number, notBefore?: Date): Promise<number> =>
  enqueueSelected(tx, trialJobType(queue.sandbox), trialJobs(queue.key, { ordinal, ...(notBefore && { notBefore }) }))

/** Every trial that waits has its job afterwards, and no more than one. Answers how many came. */
export async function enqueueWaiting(tx: Db, queue: Queue): Promise<number> {
  if (queue.concurrency !== null) await setLimit(tx, comparisonLimit(queue.key), queue.concurrency)
  return enqueueSelected(tx, trialJobType(queue.sandbox), trialJobs(queue.key, {}))
}

/** Queues every waiting trial for later. */
export const enqueueDeferred = (tx: Db, queue: Pick<Queue, 'key' | 'sandbox'>, notBefore: Date): Promise<number> =>
  enqueueSelected(tx, trialJobType(queue.sandbox), trialJobs(queue.key, { notBefore }))

const MANY = 5_000

/** Once they wait. Without it the queue is as right, and slow for a minute. */
export async function noteWaiting(db: Db, trials: number): Promise<void> {
  if (trials < MANY) return
  await refreshJobStatistics(db)
  await analyzeTrials(db)
}
