import type { Database } from '../db/db.ts'
import { newId } from '../ids.ts'
import { claim } from './claim.ts'
import type { JobLog, RunnableKind } from './jobs.ts'
import { holdLease } from './lease.ts'
import { createOutage } from './outage.ts'
import { runJob } from './run.ts'

// Nothing renews the lease while draining.
const LEASE_MS = 600_000
const silent: JobLog = { info: () => {}, warn: () => {}, error: () => {} }

/** For tests: runs what is due, one after another in the queue's order, until nothing is. */
export async function drain(database: Database, kinds: readonly RunnableKind[], log: JobLog = silent): Promise<void> {
  const byKind = new Map(kinds.map((runnable) => [runnable.kind, runnable]))
  const outage = createOutage(log)
  const counts = { done: 0, retried: 0, failed: 0, putBack: 0, lost: 0 }
  const wish = { workerId: newId(), kinds: [...byKind.keys()], slots: 1, leaseMs: LEASE_MS }
  for (;;) {
    const claimedAt = performance.now()
    const [job] = (await claim(database.db, wish)).jobs
    if (!job) return
    await runJob({ kinds: byKind, log, counts, outage }, holdLease(job, { database, leaseMs: LEASE_MS, claimedAt }))
  }
}
