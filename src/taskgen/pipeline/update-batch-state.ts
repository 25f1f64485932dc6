import { listLiveCapabilities } from '../../catalog/capabilities.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { Waiting } from '../schema.ts'
import { completeBatch, lockOpenBatch } from './batch-state.ts'
import { type EnqueueDeps, sandboxOf } from './enqueue.ts'
import { StoredGeneration } from './resolve.ts'
import { listOpenGenerated, listTasksInProgress, markRunning, markWaiting } from './sql.ts'
import { isStage } from './stage.ts'

/**
 * Updates the state of a batch: it runs while a task runs, waits while all tasks wait, and completes with the last one.
 */
export async function updateBatchState(tx: Db, deps: EnqueueDeps, batch: string): Promise<void> {
  const row = await lockOpenBatch(tx, batch)
  if (row?.step !== 'make') return
  const inProgress = await listTasksInProgress(tx, batch)
  if (inProgress.length === 0) return completeBatch(tx, batch)
  const offered = new Set(
    (await listLiveCapabilities(tx)).flatMap(({ sandbox, available }) => (available ? [sandbox] : [])),
  )
  const generation = StoredGeneration.parse(row.generation)
  const waits = inProgress.map(({ stage, deferral }) => {
    if (deferral !== null) return Waiting.parse(deferral)
    const sandbox = isStage(stage) ? sandboxOf(deps.stages[stage], generation) : undefined
    return sandbox === undefined || offered.has(sandbox) ? undefined : waitForSandbox(sandbox, deps.sandboxWaitMs)
  })
  if (waits.some((each) => each === undefined)) return void (await markRunning(tx, batch))
  const [next] = waits.flatMap((each) => each ?? []).toSorted((one, other) => (one.until < other.until ? -1 : 1))
  if (next) await markWaiting(tx, batch, next)
}

/** The job stays queued until a worker offers the sandbox again. */
const waitForSandbox = (sandbox: string, waitMs: number): Waiting => ({
  reason: 'sandbox',
  detail: `No worker offers ${sandbox} at the moment.`,
  until: new Date(Date.now() + waitMs).toISOString(),
})

/** Updates all open batches, because sandboxes may become available or unavailable while no task ends. */
export async function updateBatchStates(db: Db, deps: EnqueueDeps): Promise<void> {
  for (const batch of await listOpenGenerated(db)) await transact(db, (tx) => updateBatchState(tx, deps, batch))
}
