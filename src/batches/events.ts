import { setTimeout as wait } from 'node:timers/promises'
import type { Db } from '../platform/db/db.ts'
import { readRun } from './batches.ts'

type ServerEvent = { event: string; data: unknown }

const LOOK_EVERY_MS = 500
const ENDED: readonly string[] = ['completed', 'failed', 'canceled']

/** Its status now, again when it has changed, and that it has ended. Whoever comes back begins with the status. */
export async function* batchEvents(db: Db, id: string, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  let seen = ''
  while (!signal.aborted) {
    const run = await readRun(db, id)
    if (!run) return
    const text = JSON.stringify(run)
    if (text !== seen) yield { event: 'status', data: run }
    seen = text
    if (ENDED.includes(run.state)) {
      yield { event: 'end', data: { state: run.state } }
      return
    }
    await wait(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined)
  }
}
