import { isDatabaseUnavailable } from '../db/db.ts'
import { errorText } from '../error-text.ts'
import { backoffMs } from './backoff.ts'
import { LeaseLost } from './jobs.ts'
import type { ClaimedJob } from './sql.ts'

/** The change to record after a handler returned or threw. `none`: already recorded, or another worker has the job. */
export type JobEnding =
  | { kind: 'none' }
  | { kind: 'done' }
  | { kind: 'put_back' }
  | { kind: 'retry'; error: string; retryInMs: number }
  | { kind: 'crash'; error: string; retryInMs: number }
  | { kind: 'failed'; error: string }

/** Retry delay after a database outage, which is not the job's fault. */
const OUTAGE_MS = 1_000

type RunStatus = { leaseState: 'held' | 'ending' | 'ended' | 'lost'; aborted: boolean }

/** A handler that returns after its signal aborted is not done: only `finish` ends an aborted job. */
export function toReturnEnding({ leaseState, aborted }: RunStatus): JobEnding {
  if (leaseState === 'ended' || leaseState === 'lost') return { kind: 'none' }
  return aborted ? { kind: 'put_back' } : { kind: 'done' }
}

export function toErrorEnding(error: unknown, { leaseState, aborted }: RunStatus, job: ClaimedJob): JobEnding {
  if (leaseState === 'ended' || leaseState === 'lost' || error instanceof LeaseLost) return { kind: 'none' }
  if (aborted) return { kind: 'put_back' }
  if (isDatabaseUnavailable(error)) return { kind: 'crash', error: errorText(error), retryInMs: OUTAGE_MS }
  return toFailureEnding(errorText(error), job)
}

/** A recurring job is never given up: it waits for its next run. */
function toFailureEnding(error: string, job: ClaimedJob): JobEnding {
  const failures = job.failures + 1
  if (failures < job.failuresMax) return { kind: 'retry', error, retryInMs: backoffMs(failures, Math.random()) }
  if (job.everySeconds === null) return { kind: 'failed', error }
  return { kind: 'retry', error, retryInMs: job.everySeconds * 1_000 }
}
