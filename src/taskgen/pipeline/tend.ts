import { liveOffers } from '../../catalog/offers.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { Waiting } from '../schema.ts'
import { complete, lockOpenBatch } from './batch-state.ts'
import { type EnqueueTools, placeOf } from './enqueue.ts'
import { StoredGeneration } from './resolve.ts'
import { goOn, listMaking, listOpenGenerated, wait } from './sql.ts'
import { isStage } from './stage.ts'

/** A batch goes on while one of its tasks does, waits while all of them wait, and ends with the last of them. */
export async function tend(tx: Db, tools: EnqueueTools, batch: string): Promise<void> {
  const row = await lockOpenBatch(tx, batch)
  if (row?.step !== 'make') return
  const making = await listMaking(tx, batch)
  if (making.length === 0) return complete(tx, batch)
  const offered = new Set((await liveOffers(tx)).flatMap(({ sandbox, available }) => (available ? [sandbox] : [])))
  const generation = StoredGeneration.parse(row.generation)
  const waits = making.map(({ stage, deferral }) => {
    if (deferral !== null) return Waiting.parse(deferral)
    const place = isStage(stage) ? placeOf(tools.stages[stage], generation) : undefined
    return place === undefined || offered.has(place) ? undefined : lost(place, tools.sandboxWaitMs)
  })
  if (waits.some((each) => each === undefined)) return void (await goOn(tx, batch))
  const [next] = waits.flatMap((each) => each ?? []).toSorted((one, other) => (one.until < other.until ? -1 : 1))
  if (next) await wait(tx, batch, next)
}

/** Its job waits for whoever offers it again. */
const lost = (place: string, waitMs: number): Waiting => ({
  ...{ reason: 'sandbox', detail: `No worker offers ${place} any more.` },
  until: new Date(Date.now() + waitMs).toISOString(),
})

/** A sandbox may come and go while nothing ends. */
export async function tendAll(db: Db, tools: EnqueueTools): Promise<void> {
  for (const batch of await listOpenGenerated(db)) await transact(db, (tx) => tend(tx, tools, batch))
}
