import { setTimeout as wait } from 'node:timers/promises'
import type { Db } from '../platform/db/db.ts'
import { isOpen } from '../taskgen/schema.ts'
import { findRun } from './batches.ts'

type ServerEvent = { event: string; data: unknown }

const LOOK_EVERY_MS = 500

type Run = Awaited<ReturnType<typeof findRun>>

const looking = new Map<string, Promise<Run>>()

/** Whoever looks while another does sees what that one sees. */
function look(db: Db, id: string): Promise<Run> {
  const known = looking.get(id)
  if (known) return known
  const fresh = findRun(db, id).finally(() => looking.delete(id))
  looking.set(id, fresh)
  return fresh
}

/**
 * Its status now, again when it has changed, and that it has ended. Whoever comes back begins with the status. A
 * database that is away comes back.
 */
export async function* batchEvents(db: Db, id: string, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  let seen = ''
  while (!signal.aborted) {
    const run = await look(db, id).catch(() => 'away' as const)
    if (run === undefined) return
    const text = run === 'away' ? seen : JSON.stringify(run)
    if (text !== seen) yield { event: 'status', data: run }
    seen = text
    if (run !== 'away' && !isOpen(run)) {
      yield { event: 'end', data: { state: run.state } }
      return
    }
    await wait(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined)
  }
}
