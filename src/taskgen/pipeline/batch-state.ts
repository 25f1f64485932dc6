import { listLiveCapabilities } from '../../catalog/capabilities.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { emitEvent } from '../../webhooks/emit.ts'
import { type BatchError, isOpen, toRunId, Waiting } from '../schema.ts'
import { type EnqueueDeps, sandboxOf } from './enqueue.ts'
import { listCredentialIds, StoredGeneration } from './resolve.ts'
import * as rows from './sql.ts'
import { isStage } from './stage.ts'

export type { BatchRow, TaskKey } from './sql.ts'

/** Queries for folders that may not import sql.ts. */
export const {
  beginDiscovery,
  cancelBatch,
  findBatch,
  holdCredentials,
  lockBatch,
  markRunning,
  markWaiting,
  resetTask,
} = rows

export async function findOpenBatch(db: Db, id: string): Promise<rows.BatchRow | undefined> {
  const row = await rows.findBatch(db, id)
  return row && isOpen(row) ? row : undefined
}

/** Locks the batch until the transaction ends. Lock order: job, batch, tasks. */
export async function lockOpenBatch(tx: Db, id: string): Promise<rows.BatchRow | undefined> {
  const row = await rows.lockBatch(tx, id)
  return row && isOpen(row) ? row : undefined
}

/** Completes an open batch and notifies webhooks. */
export async function completeBatch(tx: Db, id: string): Promise<void> {
  if (!(await rows.completeBatch(tx, id))) return
  const { workspaceId, ref } = await describeForWebhook(tx, id)
  await emitEvent(tx, workspaceId, { type: 'batch.completed', data: ref })
}

/** Fails an open batch and notifies webhooks. */
export async function failBatch(tx: Db, id: string, error: BatchError): Promise<void> {
  if (!(await rows.failBatch(tx, id, error))) return
  const { workspaceId, ref } = await describeForWebhook(tx, id)
  const { code, message } = error
  await emitEvent(tx, workspaceId, { type: 'batch.failed', data: { ...ref, error: { code, message } } })
}

/** Reads the identification of a batch that webhook events carry. */
async function describeForWebhook(tx: Db, id: string) {
  const { workspaceId, owner, name } = await readBatchSource(tx, id)
  return { workspaceId, ref: { repository: `${owner}/${name}`, runId: toRunId(id) } }
}

export const newBatchError = (code: string, message: string, retryable: boolean): BatchError => ({
  code,
  message,
  retryable,
  at: new Date().toISOString(),
})

/** Reopens an ended batch and holds its credentials again. */
export async function reopenBatch(tx: Db, { id, generation }: rows.BatchRow): Promise<void> {
  await rows.reopenBatch(tx, id)
  if (generation !== null) await rows.holdCredentials(tx, id, listCredentialIds(StoredGeneration.parse(generation)))
}

/**
 * Updates the state of a generated batch: running while a task runs, waiting while all tasks wait, completed after the last
 * task.
 */
export async function updateBatchState(tx: Db, deps: EnqueueDeps, batch: string): Promise<void> {
  const row = await lockOpenBatch(tx, batch)
  if (row?.step !== 'make') return
  const inProgress = await rows.listTasksInProgress(tx, batch)
  if (inProgress.length === 0) return completeBatch(tx, batch)
  const capabilities = await listLiveCapabilities(tx)
  const availableSandboxes = new Set(capabilities.filter(({ available }) => available).map(({ sandbox }) => sandbox))
  const generation = StoredGeneration.parse(row.generation)
  const waits = inProgress.map(({ stage, deferral }) => {
    if (deferral !== null) return Waiting.parse(deferral)
    const sandbox = isStage(stage) ? sandboxOf(deps.stages[stage], generation) : undefined
    const isUnavailable = sandbox !== undefined && !availableSandboxes.has(sandbox)
    return isUnavailable ? toSandboxWait(sandbox, deps.sandboxWaitMs) : undefined
  })
  const isAnyRunning = waits.some((each) => each === undefined)
  if (isAnyRunning) {
    await rows.markRunning(tx, batch)
    return
  }
  const [next] = waits.flatMap((each) => each ?? []).toSorted((one, other) => (one.until < other.until ? -1 : 1))
  if (next) await rows.markWaiting(tx, batch, next)
}

/** Returns the wait of a task whose job stays queued until a worker offers the sandbox again. */
const toSandboxWait = (sandbox: string, waitMs: number): Waiting => ({
  reason: 'sandbox',
  detail: `No worker offers ${sandbox} at the moment.`,
  until: new Date(Date.now() + waitMs).toISOString(),
})

/** Updates all open batches, because sandboxes may become available or unavailable while no task ends. */
export async function updateBatchStates(db: Db, deps: EnqueueDeps): Promise<void> {
  for (const batch of await rows.listOpenGenerated(db)) await transact(db, (tx) => updateBatchState(tx, deps, batch))
}

export const readBatchWorkspace = async (db: Db, batch: string): Promise<string> =>
  (await readBatchSource(db, batch)).workspaceId

/** Reads the repository of a batch and its credential. */
export async function readBatchSource(db: Db, batch: string) {
  const repository = await rows.findBatchSource(db, batch)
  if (!repository) throw new Error(`Batch ${batch} has no repository.`)
  return repository
}
