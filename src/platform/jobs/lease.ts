import { type Database, type Db, transact } from '../db/db.ts'
import { type Job, JobCanceled, LeaseLost } from './jobs.ts'
import { type ClaimedJob, endJob, lockLease, reapDead, renewLeases } from './sql.ts'
import { upsertWorker, type WorkerRow } from './workers/sql.ts'

/** A job claimed by this process. While `ending`, its end is being committed, so a missing row does not mean a lost lease. */
export type Lease = {
  readonly job: ClaimedJob
  readonly database: Database
  readonly leaseMs: number
  readonly abort: AbortController
  state: 'held' | 'ending' | 'ended' | 'lost'
  expiry?: NodeJS.Timeout
}

type LeaseOptions = { database: Database; leaseMs: number; claimedAt: number }

export function createLease(job: ClaimedJob, { database, leaseMs, claimedAt }: LeaseOptions): Lease {
  const lease: Lease = { job, database, leaseMs, abort: new AbortController(), state: 'held' }
  extendLease(lease, claimedAt)
  return lease
}

/** Restarts the expiry timer from the time at which the renewal was sent. The lease in the database ends later, never earlier. */
function extendLease(lease: Lease, renewedAt: number): void {
  clearTimeout(lease.expiry)
  const remainingMs = Math.max(0, renewedAt + lease.leaseMs - performance.now())
  lease.expiry = setTimeout(() => loseLease(lease, 'was not renewed in time'), remainingMs)
}

export function loseLease(lease: Lease, reason: string): void {
  clearTimeout(lease.expiry)
  lease.state = 'lost'
  lease.abort.abort(new LeaseLost(`The lease of job ${lease.job.id} ${reason}.`))
}

/** Returns the job as its handler sees it. */
export function toJob<P>(lease: Lease, payload: P): Job<P> {
  return {
    id: lease.job.id,
    payload,
    attempt: lease.job.attempt,
    deaths: lease.job.deaths,
    unattendedMs: lease.job.unattendedMs,
    signal: lease.abort.signal,
    finish: (work) => finish(lease, work),
    write: (work) => write(lease, work),
  }
}

/** Ends the job before `work` runs: this locks the row, and lets `work` enqueue a job with the same id. */
function finish<T>(lease: Lease, work: (tx: Db) => Promise<T>): Promise<T> {
  return endLease(lease, () =>
    transact(lease.database.db, async (tx) => {
      requireHeld(lease, await endJob(tx, lease.job))
      return work(tx)
    }),
  )
}

/** Ends a job that has nothing else to write, in one statement instead of a transaction. */
export function complete(lease: Lease): Promise<void> {
  return endLease(lease, async () => requireHeld(lease, await endJob(lease.database.db, lease.job)))
}

/** Runs `work`, which commits the end of a job. Meanwhile a heartbeat that does not find the row does not declare the lease lost. */
export async function endLease<T>(lease: Lease, work: () => Promise<T>): Promise<T> {
  const previousState = lease.state
  lease.state = 'ending'
  try {
    const result = await work()
    lease.state = 'ended'
    clearTimeout(lease.expiry)
    return result
  } catch (error) {
    if (lease.state === 'ending') lease.state = previousState
    throw error
  }
}

/** Runs `work` while it holds the row's lock, so that the lease cannot be taken. Renews the lease last, in case `work` took long. */
function write<T>(lease: Lease, work: (tx: Db) => Promise<T>): Promise<T> {
  return transact(lease.database.db, async (tx) => {
    requireHeld(lease, await lockLease(tx, lease.job))
    const result = await work(tx)
    await renewLeases(tx, [lease.job], lease.leaseMs)
    return result
  })
}

function requireHeld(lease: Lease, isHeld: boolean): void {
  if (isHeld) return
  loseLease(lease, 'is held by another worker')
  throw new LeaseLost(`Job ${lease.job.id} was taken over by another worker.`)
}

type LeaseRenewal = {
  db: Db
  worker: WorkerRow
  leaseMs: number
  /** Time without a heartbeat after which a worker without a database session is dead. Default: when its leases expire. */
  silentMs?: number | undefined
}

/** Renews the leases of this worker and requeues jobs whose worker died. Returns whether there were any. */
export async function sendHeartbeat(
  { db, worker, leaseMs, silentMs }: LeaseRenewal,
  leases: Iterable<Lease>,
): Promise<boolean> {
  await renewOpenLeases(db, leaseMs, [...leases].filter(isOpen))
  await upsertWorker(db, worker)
  return reapDead(db, { silentMs })
}

const isOpen = (lease: Lease) => lease.state === 'held' || lease.state === 'ending'

async function renewOpenLeases(db: Db, leaseMs: number, leases: Lease[]): Promise<void> {
  if (leases.length === 0) return
  const renewedAt = performance.now()
  const jobs = leases.map((lease) => lease.job)
  const rows = await renewLeases(db, jobs, leaseMs)
  const rowByLease = new Map(rows.map((row) => [row.leaseId, row]))
  for (const lease of leases) {
    // The job may have ended while the query was running.
    if (isOpen(lease)) applyRenewal(lease, rowByLease.get(lease.job.leaseId), renewedAt)
  }
}

function applyRenewal(lease: Lease, row: { cancelRequested: boolean } | undefined, renewedAt: number): void {
  if (row) extendLease(lease, renewedAt)
  else if (lease.state === 'held') loseLease(lease, 'was taken by another worker')
  if (row?.cancelRequested) lease.abort.abort(new JobCanceled(`Job ${lease.job.id} was canceled.`))
}
