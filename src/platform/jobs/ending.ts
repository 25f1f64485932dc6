import { databaseIsAway } from '../db/db.ts'
import { errorText } from '../error-text.ts'
import { backoffMs } from './backoff.ts'
import { LeaseLost } from './jobs.ts'
import type { ClaimedJob } from './sql.ts'

/** What remains to be written down after a handler is through. */
export type Ending =
  | { kind: 'none' }
  | { kind: 'done' }
  | { kind: 'put_back' }
  | { kind: 'retry'; error: string; retryInMs: number }
  | { kind: 'crash'; error: string; retryInMs: number }
  | { kind: 'failed'; error: string }

/** After a loss of the database, which says nothing of the job. */
const OUTAGE_MS = 1_000

type Run = { leaseState: 'held' | 'ending' | 'ended' | 'lost'; aborted: boolean }

/** A handler that returns although it was told to stop has not said that it is done: only `finish` says so. */
export function endingOfReturn({ leaseState, aborted }: Run): Ending {
  if (leaseState === 'ended' || leaseState === 'lost') return { kind: 'none' }
  return aborted ? { kind: 'put_back' } : { kind: 'done' }
}

export function endingOfThrow(thrown: unknown, run: Run, job: ClaimedJob): Ending {
  if (run.leaseState === 'ended' || run.leaseState === 'lost' || thrown instanceof LeaseLost) return { kind: 'none' }
  if (run.aborted) return { kind: 'put_back' }
  if (databaseIsAway(thrown)) return { kind: 'crash', error: errorText(thrown), retryInMs: OUTAGE_MS }
  return endingOfFailure(errorText(thrown), job)
}

/** A recurring job is never given up: it waits for its next turn. */
function endingOfFailure(error: string, job: ClaimedJob): Ending {
  const failures = job.failures + 1
  if (failures < job.failuresMax) return { kind: 'retry', error, retryInMs: backoffMs(failures, Math.random()) }
  if (job.everySeconds === null) return { kind: 'failed', error }
  return { kind: 'retry', error, retryInMs: job.everySeconds * 1_000 }
}
