import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { type Db, transact } from '../db/db.ts'
import { errorText } from '../error-text.ts'
import { backoffMs } from './backoff.ts'
import { type Ending, endingOfReturn, endingOfThrow } from './ending.ts'
import { type JobLog, LeaseLost, type RunnableKind } from './jobs.ts'
import { complete, endLease, jobOf, type Lease } from './lease.ts'
import type { Outage } from './outage.ts'
import { failJob, putBack } from './sql.ts'

export type Counts = { done: number; retried: number; failed: number; putBack: number; lost: number }
export type RunTools = { kinds: ReadonlyMap<string, RunnableKind>; log: JobLog; counts: Counts; outage: Outage }

const CRASHES_MAX = 25
const RECORD_AGAIN_MS = 500

/** Runs one claimed job and writes down how it ended. Never throws. */
export async function runJob(tools: RunTools, lease: Lease): Promise<void> {
  const ending = await perform(tools, lease)
  await record(tools, lease, ending)
  clearTimeout(lease.expiry)
  if (lease.state === 'lost') tools.counts.lost += 1
  else tools.counts[COUNTED[ending.kind]] += 1
}

const COUNTED = {
  none: 'done',
  done: 'done',
  put_back: 'putBack',
  retry: 'retried',
  crash: 'retried',
  failed: 'failed',
} as const

async function perform({ kinds, log }: RunTools, lease: Lease): Promise<Ending> {
  const { job } = lease
  const runnable = kinds.get(job.kind)
  if (!runnable) return { kind: 'failed', error: `No code here runs jobs of the kind ${job.kind}.` }
  if (job.crashes >= CRASHES_MAX) return { kind: 'failed', error: `It ended its worker ${job.crashes} times.` }

  const run = () => ({ leaseState: lease.state, aborted: lease.abort.signal.aborted })
  try {
    const parsed = runnable.payload.safeParse(job.payload)
    if (!parsed.success) return { kind: 'failed', error: misfit(job.kind, parsed.error) }
    await runnable.run(jobOf(lease, parsed.data))
    return endingOfReturn(run())
  } catch (error) {
    const ending = endingOfThrow(error, run(), job)
    log.warn({ error, job: job.id, kind: job.kind, attempt: job.attempt, ending: ending.kind }, 'jobs: a job threw')
    return ending
  }
}

const misfit = (kind: string, error: z.ZodError) =>
  errorText(`The payload does not fit the kind ${kind}: ${z.prettifyError(error)}`)

/** Goes on while the lease is held: an outage of the database must not turn a job that is done into one that is not. */
async function record(tools: RunTools, lease: Lease, ending: Ending): Promise<void> {
  while (lease.state === 'held' && ending.kind !== 'none') {
    try {
      await recordOnce(tools, lease, ending)
      return tools.outage.worked('record')
    } catch (error) {
      if (error instanceof LeaseLost) return
      tools.outage.failed('record', error)
      await pause(RECORD_AGAIN_MS)
    }
  }
}

async function recordOnce(tools: RunTools, lease: Lease, ending: Ending): Promise<void> {
  if (ending.kind === 'done') return complete(lease)
  if (ending.kind === 'failed') return endLease(lease, () => giveUp(tools, lease, ending.error))
  const failure = ending.kind === 'retry' || ending.kind === 'crash' ? ending : undefined
  await endLease(lease, () => putBack(lease.database.db, lease.job, failure))
}

/** A hook that throws must not lose the failure: the job comes back later and is given up again. */
async function giveUp({ kinds, log }: RunTools, lease: Lease, reason: string): Promise<void> {
  const { job, database } = lease
  const about = { job: job.id, kind: job.kind, attempt: job.attempt, reason }
  try {
    await transact(database.db, async (tx) => {
      if (await failJob(tx, job, reason)) await tellFailed(tx, kinds.get(job.kind), { payload: job.payload, reason })
    })
    log.error(about, 'jobs: a job failed for good')
  } catch (error) {
    const retryInMs = backoffMs(job.failures + 1, Math.random())
    await putBack(database.db, job, { kind: 'retry', error: reason, retryInMs })
    log.error({ ...about, error }, 'jobs: a failed job could not be given up; it comes back')
  }
}

type Failure = { payload: unknown; reason: string }

async function tellFailed(tx: Db, runnable: RunnableKind | undefined, { payload, reason }: Failure): Promise<void> {
  const parsed = runnable?.payload.safeParse(payload)
  if (parsed?.success) await runnable?.failed?.(tx, parsed.data, reason)
}
