import { type Database, type Db, transact } from '../db/db.ts'
import { type Job, LeaseLost } from './jobs.ts'
import { type ClaimedJob, endJob, lockLease, renewLeases } from './sql.ts'

/** A job in the hands of this process. `ending`: its end is being committed, so a row that is gone is no loss. */
export type Lease = {
  readonly job: ClaimedJob
  readonly database: Database
  readonly leaseMs: number
  readonly abort: AbortController
  state: 'held' | 'ending' | 'ended' | 'lost'
  expiry?: NodeJS.Timeout
}

type Holding = { database: Database; leaseMs: number; claimedAt: number }

export function holdLease(job: ClaimedJob, { database, leaseMs, claimedAt }: Holding): Lease {
  const lease: Lease = { job, database, leaseMs, abort: new AbortController(), state: 'held' }
  keepLease(lease, claimedAt)
  return lease
}

/** Counts from when the renewal was sent: the database's own clock can only have started later. */
export function keepLease(lease: Lease, renewedAt: number): void {
  clearTimeout(lease.expiry)
  const left = Math.max(0, renewedAt + lease.leaseMs - performance.now())
  lease.expiry = setTimeout(() => loseLease(lease, 'was not renewed in time'), left)
}

export function loseLease(lease: Lease, why: string): void {
  clearTimeout(lease.expiry)
  lease.state = 'lost'
  lease.abort.abort(new LeaseLost(`The lease of job ${lease.job.id} ${why}.`))
}

/** What the handler sees of its lease. */
export function jobOf<P>(lease: Lease, payload: P): Job<P> {
  return {
    id: lease.job.id,
    payload,
    attempt: lease.job.attempt,
    signal: lease.abort.signal,
    finish: (work) => finish(lease, work),
    write: (work) => write(lease, work),
  }
}

/** The end comes first: it takes the row's lock, and leaves the id free for `work` to enqueue again. */
function finish<T>(lease: Lease, work: (tx: Db) => Promise<T>): Promise<T> {
  return endLease(lease, () =>
    transact(lease.database.db, async (tx) => {
      requireHeld(lease, await endJob(tx, lease.job))
      return work(tx)
    }),
  )
}

/** Done, with nothing to write along: one statement instead of a transaction. */
export function complete(lease: Lease): Promise<void> {
  return endLease(lease, async () => requireHeld(lease, await endJob(lease.database.db, lease.job)))
}

/** While `work` commits the end, a heartbeat that does not find the row must not call the lease lost. */
export async function endLease<T>(lease: Lease, work: () => Promise<T>): Promise<T> {
  const before = lease.state
  lease.state = 'ending'
  try {
    const result = await work()
    lease.state = 'ended'
    clearTimeout(lease.expiry)
    return result
  } catch (error) {
    if (lease.state === 'ending') lease.state = before
    throw error
  }
}

/** Holds the row's lock throughout, so the lease cannot be taken; renews it last, in case `work` took long. */
function write<T>(lease: Lease, work: (tx: Db) => Promise<T>): Promise<T> {
  return transact(lease.database.db, async (tx) => {
    requireHeld(lease, await lockLease(tx, lease.job))
    const result = await work(tx)
    await renewLeases(tx, [lease.job], lease.leaseMs)
    return result
  })
}

function requireHeld(lease: Lease, held: boolean): void {
  if (held) return
  loseLease(lease, 'is held by another worker')
  throw new LeaseLost(`Job ${lease.job.id} was taken over by another worker.`)
}
