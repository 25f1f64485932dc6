import { setTimeout as wait } from 'node:timers/promises'
import { createConcurrencyLimit } from '../platform/concurrency.ts'
import type { Db } from '../platform/db/db.ts'
import { isOpen } from '../taskgen/schema.ts'
import { findRun } from './batches.ts'

const POLL_MS = 500
/** Maximum number of batches that are polled at once, so that many watched ones leave connections for requests. */
const limitPolls = createConcurrencyLimit(2)

type BatchEvent = { event: string; data: unknown }

type RunSnapshot = Awaited<ReturnType<typeof findRun>>

const pendingReads = new Map<string, Promise<RunSnapshot>>()

/** Concurrent readers of the same batch share one query. */
function readShared(db: Db, id: string): Promise<RunSnapshot> {
  const pending = pendingReads.get(id)
  if (pending) return pending
  const started = limitPolls(() => findRun(db, id)).finally(() => pendingReads.delete(id))
  pendingReads.set(id, started)
  return started
}

/**
 * Yields the status now and after each change, then the end. A reconnecting client starts with the current status.
 * Database outages are retried.
 */
export async function* batchEvents(db: Db, id: string, signal: AbortSignal): AsyncGenerator<BatchEvent> {
  let lastSent = ''
  while (!signal.aborted) {
    const run = await readShared(db, id).catch(() => 'unavailable' as const)
    if (run === undefined) return
    const text = run === 'unavailable' ? lastSent : JSON.stringify(run)
    if (text !== lastSent) yield { event: 'status', data: run }
    lastSent = text
    if (run !== 'unavailable' && !isOpen(run)) {
      yield { event: 'end', data: { state: run.state } }
      return
    }
    await wait(POLL_MS, undefined, { signal }).catch(() => undefined)
  }
}
