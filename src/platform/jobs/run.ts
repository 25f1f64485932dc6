import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { type Db, isDatabaseUnavailable, transact } from '../db/db.ts'
import { errorText } from '../errors.ts'
import { backoffMs } from '../retry-delay.ts'
import { type JobHandler, type JobLog, LeaseLost } from './jobs.ts'
import { complete, endLease, type Lease, toJob } from './lease.ts'
import { type ClaimedJob, failJob, putBack } from './sql.ts'

export type JobCounts = { done: number; retried: number; failed: number; putBack: number; lost: number }

type RunDeps = {
  handlers: ReadonlyMap<string, JobHandler>
  log: JobLog
  counts: JobCounts
  outage: OutageLog
}

/** Number of crashes after which a job is given up. */
const CRASHES_MAX = 25
/** Pause before the ending of a job is recorded again after a database error. */
const RECORD_RETRY_MS = 500

/** Runs a claimed job and records how it ended. Never throws. */
export async function runJob(deps: RunDeps, lease: Lease): Promise<void> {
  const ending = await runHandler(deps, lease)
  await recordEnding(deps, lease, ending)
  clearTimeout(lease.expiry)
  if (lease.state === 'lost') deps.counts.lost += 1
  else deps.counts[COUNTER_BY_ENDING[ending.kind]] += 1
}

const COUNTER_BY_ENDING = {
  none: 'done',
  done: 'done',
  put_back: 'putBack',
  retry: 'retried',
  crash: 'retried',
  failed: 'failed',
} as const

async function runHandler({ handlers, log }: RunDeps, lease: Lease): Promise<JobEnding> {
  const { job } = lease
  const handler = handlers.get(job.type)
  if (!handler) return { kind: 'failed', error: `No handler for job type ${job.type}.` }
  if (job.crashes >= CRASHES_MAX) return { kind: 'failed', error: `The worker of the job died ${job.crashes} times.` }

  const status = () => ({ leaseState: lease.state, aborted: lease.abort.signal.aborted })
  try {
    const parsed = handler.payload.safeParse(job.payload)
    if (!parsed.success) return { kind: 'failed', error: toPayloadError(job.type, parsed.error) }
    await handler.run(toJob(lease, parsed.data))
    return toReturnEnding(status())
  } catch (error) {
    const ending = toErrorEnding(error, status(), job)
    log.warn({ error, job: job.id, type: job.type, attempt: job.attempt, ending: ending.kind }, 'jobs: job threw')
    return ending
  }
}

const toPayloadError = (type: string, error: z.ZodError) =>
  errorText(`Invalid payload for job type ${type}: ${z.prettifyError(error)}`)

/** Records the ending. Retries while the lease is held, so that a database outage does not repeat a finished job. */
async function recordEnding(deps: RunDeps, lease: Lease, ending: JobEnding): Promise<void> {
  while (lease.state === 'held' && ending.kind !== 'none') {
    try {
      await recordOnce(deps, lease, ending)
      return deps.outage.recovered('record')
    } catch (error) {
      if (error instanceof LeaseLost) return
      deps.outage.failed('record', error)
      await pause(RECORD_RETRY_MS)
    }
  }
}

async function recordOnce(deps: RunDeps, lease: Lease, ending: JobEnding): Promise<void> {
  if (ending.kind === 'done') return complete(lease)
  if (ending.kind === 'failed') return endLease(lease, () => giveUp(deps, lease, ending.error))
  const failure = ending.kind === 'retry' || ending.kind === 'crash' ? ending : undefined
  await endLease(lease, () => putBack(lease.database.db, lease.job, failure))
}

/** Fails a job for good and calls `onGivenUp`. If that throws, the job returns to the queue and this is repeated later. */
async function giveUp({ handlers, log }: RunDeps, lease: Lease, reason: string): Promise<void> {
  const { job, database } = lease
  const fields = { job: job.id, type: job.type, attempt: job.attempt, reason }
  try {
    await transact(database.db, async (tx) => {
      if (await failJob(tx, job, reason)) await callOnGivenUp(tx, handlers.get(job.type), job.payload, reason)
    })
    log.error(fields, 'jobs: job given up')
  } catch (error) {
    const retryInMs = backoffMs(job.failures + 1, Math.random())
    await putBack(database.db, job, { kind: 'retry', error: reason, retryInMs })
    log.error({ ...fields, error }, 'jobs: giving up a job failed; it will be retried')
  }
}

async function callOnGivenUp(tx: Db, handler: JobHandler | undefined, payload: unknown, reason: string): Promise<void> {
  const parsed = handler?.payload.safeParse(payload)
  if (parsed?.success) await handler?.onGivenUp?.(tx, parsed.data, reason)
}

export type OutageLog = ReturnType<typeof createOutageLog>

/** Logs a database outage once at its start and once at its end, regardless of how many activities fail meanwhile. */
export function createOutageLog(log: JobLog) {
  const failing = new Set<string>()
  return {
    failed(activity: string, error: unknown): void {
      if (failing.size === 0) log.error({ error, activity }, 'jobs: database unavailable, retrying')
      failing.add(activity)
    },
    recovered(activity: string): void {
      if (failing.delete(activity) && failing.size === 0) log.info({ activity }, 'jobs: database available again')
    },
  }
}

/**
 * The change to record after a handler returned or threw. `none`: already recorded, or another worker has the job.
 * `crash`: the database was unavailable; counts like a dead worker and not as a failure of the job.
 */
type JobEnding =
  | { kind: 'none' }
  | { kind: 'done' }
  | { kind: 'put_back' }
  | { kind: 'retry'; error: string; retryInMs: number }
  | { kind: 'crash'; error: string; retryInMs: number }
  | { kind: 'failed'; error: string }

/** Retry delay after a database outage, which is not the job's fault. */
const OUTAGE_RETRY_MS = 1_000

type RunStatus = { leaseState: 'held' | 'ending' | 'ended' | 'lost'; aborted: boolean }

/** Returns the ending after a handler returned. An aborted job is only done if its handler called `finish`. */
function toReturnEnding({ leaseState, aborted }: RunStatus): JobEnding {
  if (leaseState === 'ended' || leaseState === 'lost') return { kind: 'none' }
  return aborted ? { kind: 'put_back' } : { kind: 'done' }
}

/** Returns the ending after a handler threw. */
export function toErrorEnding(error: unknown, { leaseState, aborted }: RunStatus, job: ClaimedJob): JobEnding {
  if (leaseState === 'ended' || leaseState === 'lost' || error instanceof LeaseLost) return { kind: 'none' }
  if (aborted) return { kind: 'put_back' }
  if (isDatabaseUnavailable(error)) return { kind: 'crash', error: errorText(error), retryInMs: OUTAGE_RETRY_MS }
  return toFailureEnding(errorText(error), job)
}

/** Returns the ending of a failed attempt. A recurring job is never given up: it waits for its next run. */
function toFailureEnding(error: string, job: ClaimedJob): JobEnding {
  const failures = job.failures + 1
  if (failures < job.failuresMax) return { kind: 'retry', error, retryInMs: backoffMs(failures, Math.random()) }
  if (job.everySeconds === null) return { kind: 'failed', error }
  return { kind: 'retry', error, retryInMs: job.everySeconds * 1_000 }
}
