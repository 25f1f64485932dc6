import type { Db } from '../db/db.ts'
import { JobCanceled } from './jobs.ts'
import { keepLease, type Lease, loseLease } from './lease.ts'
import { reapExpired, renewLeases, upsertWorker } from './sql.ts'

type Beating = { db: Db; worker: { id: string; host: string; processId: number }; leaseMs: number }

/** Says that this worker is alive, keeps its leases, and takes back those of workers that are not. True: took some. */
export async function beat({ db, worker, leaseMs }: Beating, leases: Iterable<Lease>): Promise<boolean> {
  await renewHeld(db, leaseMs, [...leases].filter(isOpen))
  await upsertWorker(db, worker)
  return reapExpired(db)
}

const isOpen = (lease: Lease) => lease.state === 'held' || lease.state === 'ending'

async function renewHeld(db: Db, leaseMs: number, leases: Lease[]): Promise<void> {
  if (leases.length === 0) return
  const renewedAt = performance.now()
  const rows = await renewLeases(
    db,
    leases.map((lease) => lease.job),
    leaseMs,
  )
  const byLease = new Map(rows.map((row) => [row.leaseId, row]))
  for (const lease of leases) {
    // It may have ended while the answer was on its way.
    if (isOpen(lease)) settle(lease, byLease.get(lease.job.leaseId), renewedAt)
  }
}

function settle(lease: Lease, row: { cancelRequested: boolean } | undefined, renewedAt: number): void {
  if (row) keepLease(lease, renewedAt)
  else if (lease.state === 'held') loseLease(lease, 'was taken by another worker')
  if (row?.cancelRequested) lease.abort.abort(new JobCanceled(`Job ${lease.job.id} was canceled.`))
}
