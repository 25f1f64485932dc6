import type { Database } from '../../../src/platform/db/db.ts'
import { newId } from '../../../src/platform/ids.ts'
import type { JobHandler, JobLog } from '../../../src/platform/jobs/jobs.ts'
import { createLease } from '../../../src/platform/jobs/lease.ts'
import { createOutageLog, runJob } from '../../../src/platform/jobs/run.ts'
import { claim } from '../../../src/platform/jobs/worker.ts'

// Nothing renews the lease while draining.
const LEASE_MS = 600_000
const silentLog: JobLog = { info: () => {}, warn: () => {}, error: () => {} }

/** Runs the jobs that are due, one after another in the order of the queue, until none is. */
export async function drain(database: Database, handlers: readonly JobHandler[]): Promise<void> {
  const byType = new Map(handlers.map((handler) => [handler.type, handler]))
  const counts = { done: 0, retried: 0, failed: 0, putBack: 0, lost: 0 }
  const deps = { handlers: byType, log: silentLog, counts, outage: createOutageLog(silentLog) }
  const options = { workerId: newId(), types: [...byType.keys()], slots: 1, leaseMs: LEASE_MS }
  for (;;) {
    const claimedAt = performance.now()
    const [job] = (await claim(database.db, options)).jobs
    if (!job) return
    await runJob(deps, createLease(job, { database, leaseMs: LEASE_MS, claimedAt }))
  }
}
