import type { Db } from '../../platform/db/db.ts'
import { readRepositoryRef } from '../../repos/repos.ts'
import { emitEvent } from '../../webhooks/emit.ts'
import { type BatchError, isOpen, toRunId } from '../schema.ts'
import { listCredentialIds, StoredGeneration } from './resolve.ts'
import * as rows from './sql.ts'

// State transitions of batches and tasks, also for folders that do not access the tables. Only open batches change.

export type { BatchRow, TaskKey } from './sql.ts'

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

export async function completeBatch(tx: Db, id: string): Promise<void> {
  const ended = await findEndedBatch(tx, id, await rows.completeBatch(tx, id))
  if (ended) await emitEvent(tx, ended.workspaceId, { type: 'batch.completed', data: ended.data })
}

export async function failBatch(tx: Db, id: string, error: BatchError): Promise<void> {
  const ended = await findEndedBatch(tx, id, await rows.failBatch(tx, id, error))
  const { code, message } = error
  if (!ended) return
  await emitEvent(tx, ended.workspaceId, { type: 'batch.failed', data: { ...ended.data, error: { code, message } } })
}

async function findEndedBatch(tx: Db, id: string, repository: number | undefined) {
  if (repository === undefined) return undefined
  const { workspaceId, owner, name } = await readRepositoryRef(tx, repository)
  return { workspaceId, data: { repository: `${owner}/${name}`, runId: toRunId(id) } }
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
