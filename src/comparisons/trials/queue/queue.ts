import { z } from 'zod'
import { findSandboxChoice, toEngineCapability } from '../../../catalog/sandboxes.ts'
import { isStoredCredential } from '../../../credentials/credentials.ts'
import type { Db } from '../../../platform/db/db.ts'
import {
  cancelAll,
  defineJobType,
  deleteQueuedJobs,
  enqueueSelected,
  type JobType,
  refreshJobStatistics,
  setLimit,
} from '../../../platform/jobs/jobs.ts'
import { formatTrialId } from '../../plan.ts'
import { listOrdinals } from '../sql.ts'
import { analyzeTrials, selectTrialJobs } from './sql.ts'

const TrialPayload = z.strictObject({ comparison: z.number().int(), ordinal: z.number().int() })
export type TrialPayload = z.infer<typeof TrialPayload>

/**
 * Returns the job type of a capability. Each capability of workers has its own type: a worker claims only the types
 * it can run.
 */
export const toTrialJobType = (capability: string): JobType<TrialPayload> =>
  defineJobType({ type: `trial.${capability}`, payload: TrialPayload })

type CredentialLimits = { sandbox: number | undefined; model: number | undefined }

/** Sets how many trials may run at the same time with any one credential. */
export async function limitCredentials(db: Db, { sandbox, model }: CredentialLimits): Promise<void> {
  await setLimit(db, 'sandbox', sandbox ?? null)
  await setLimit(db, 'model', model ?? null)
}

type SandboxSelection = { workspaceId: string; sandbox: string; sandboxCredentialId: string }

/**
 * Returns the capability that a worker needs for trials of a sandbox: the sandbox itself or, if a stored credential names
 * an engine, the use of such engines.
 */
export async function resolveNeededCapability(
  db: Db,
  { workspaceId, sandbox, sandboxCredentialId }: SandboxSelection,
): Promise<string> {
  const usesEngine =
    findSandboxChoice(sandbox)?.hasEngines && (await isStoredCredential(db, workspaceId, sandboxCredentialId))
  return usesEngine ? toEngineCapability(sandbox) : sandbox
}

const resolveJobType = async (db: Db, selection: SandboxSelection): Promise<JobType<TrialPayload>> =>
  toTrialJobType(await resolveNeededCapability(db, selection))

/** The comparison whose trials are queued. A running trial counts towards its `concurrency` and the limits of its credentials. */
type TrialQueue = SandboxSelection & { key: number; concurrency: number | null }

const toLimitKey = (key: number): string => `comparison ${key}`

export const enqueueTrial = async (tx: Db, queue: TrialQueue, ordinal: number, notBefore?: Date): Promise<number> =>
  enqueueSelected(tx, await resolveJobType(tx, queue), selectTrialJobs(queue.key, { ordinal, notBefore }))

/** Enqueues every waiting trial that has no job yet. Returns their number. */
export async function enqueueWaiting(tx: Db, queue: TrialQueue): Promise<number> {
  if (queue.concurrency !== null) await setLimit(tx, toLimitKey(queue.key), queue.concurrency)
  return enqueueSelected(tx, await resolveJobType(tx, queue), selectTrialJobs(queue.key, {}))
}

const MANY_TRIALS = 5_000

/** Refreshes planner statistics after a large enqueue. Without it the queue is correct but slow for a minute. */
export async function analyzeAfterEnqueue(db: Db, trials: number): Promise<void> {
  if (trials < MANY_TRIALS) return
  await refreshJobStatistics(db)
  await analyzeTrials(db)
}

/** Deletes the jobs of all waiting trials of a comparison. The trials stay queued. */
export const withdrawWaiting = async (tx: Db, key: number): Promise<void> =>
  deleteQueuedJobs(tx, toTrialIds(key, await listOrdinals(tx, key, 'queued')))

/** Postpones all waiting trials of a comparison until `notBefore`. */
export async function deferWaiting(
  tx: Db,
  { comparison, ...selection }: SandboxSelection & { comparison: number },
  notBefore: Date,
): Promise<void> {
  await withdrawWaiting(tx, comparison)
  await enqueueSelected(tx, await resolveJobType(tx, selection), selectTrialJobs(comparison, { notBefore }))
}

/**
 * Stops the jobs of canceled trials, after the cancellation is committed. In the same transaction it could deadlock with
 * the jobs. A job that is missed does no harm: it finds its trial canceled.
 */
export async function stopJobs(db: Db, key: number, ordinals: readonly number[]): Promise<void> {
  await deleteQueuedJobs(db, toTrialIds(key, ordinals))
  await cancelAll(db, toTrialIds(key, ordinals))
  await liftLimit(db, key)
}

/** Removes the limit on the concurrent trials of a comparison. */
export const liftLimit = (tx: Db, key: number): Promise<void> => setLimit(tx, toLimitKey(key), null)

const toTrialIds = (comparison: number, ordinals: readonly number[]): string[] =>
  ordinals.map((ordinal) => formatTrialId({ comparison, ordinal }))
