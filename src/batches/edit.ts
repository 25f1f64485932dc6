import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { contentStore } from '../contents/contents.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import type { AllowedHost } from '../platform/outbound/url-rules.ts'
import { invalidRequest, Problem, preconditionFailed } from '../platform/problem.ts'
import { openScratchFolder } from '../sandboxes/kernel/ownership.ts'
import { storeTask } from '../taskgen/assembly/screen-task.ts'
import { type BatchRow, lockBatch, reopenBatch, resetTask } from '../taskgen/pipeline/batch-state.ts'
import { enqueueDiscovery } from '../taskgen/pipeline/discover.ts'
import { deleteReviewEvidence, INSTRUCTION_FILE } from '../taskgen/pipeline/facts.ts'
import { isOpen, toRunId } from '../taskgen/schema.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { enqueueImport } from './import.ts'
import { batchStopped, fileNotEditable, taskNotReady } from './schema.ts'
import * as rows from './sql.ts'
import { type FullTaskRow, readStoredFiles, readTaskRow } from './tasks.ts'

export type EditFileDeps = {
  db: Db
  blobs: Blobs
  draftsFolder: string
  scratchFolder: string
  buildHosts?: readonly AllowedHost[]
}

type FileEdit = { path: string; content: string }

/**
 * Replaces a file of a task and repeats the stages that depend on it. A generated task allows only its instruction to be
 * replaced, and its tests are not executed again. An imported task is validated like a new one.
 */
export async function editFile(
  deps: EditFileDeps,
  by: AuditActor,
  row: FullTaskRow,
  edit: FileEdit,
): Promise<FullTaskRow> {
  requireEditable(row, edit.path)
  const isImported = row.candidate === null
  const stored = await storeEditedTask(deps, row, edit)
  await transact(deps.db, async (tx) => {
    // Lock order: the job first, then the row.
    await (isImported ? enqueueImport(tx, row.batch) : enqueueDiscovery(tx, row.batch))
    const batch = await lockUnchanged(tx, row)
    await resetTask(tx, { batch: row.batch, task: row.id }, stored, isImported ? null : edit.content)
    await deleteReviewEvidence(tx, row.batch, row.id)
    if (!isOpen(batch)) await reopenBatch(tx, batch)
    const subject = `${toRunId(row.batch)}/${row.id}`
    await record(tx, { ...by, action: 'task.edited', subject, detail: { path: edit.path, digest: stored.digest } })
  })
  return readTaskRow(deps.db, row.batch, row.id)
}

const STOPPED_STATES: readonly string[] = ['canceled', 'failed']

/** Locks a task and its batch. Throws if the task has changed since it was read. */
async function lockUnchanged(tx: Db, row: FullTaskRow): Promise<BatchRow> {
  const batch = await lockBatch(tx, row.batch)
  if (!batch || STOPPED_STATES.includes(batch.state))
    throw new Problem(batchStopped, 'The batch has stopped. Resume it, then change the file.')
  const [current] = await rows.lockTaskRows(tx, row.batch, [row.id])
  if (current?.digest !== row.digest || current.state !== row.state)
    throw new Problem(preconditionFailed, 'The task has changed since you read it. Read it again.')
  return batch
}

function requireEditable(
  { id, state, candidate }: Pick<FullTaskRow, 'id' | 'state' | 'candidate'>,
  path: string,
): void {
  if (state !== 'ready' && state !== 'rejected')
    throw new Problem(taskNotReady, `${id} is ${state}; only a ready or rejected task can be changed.`)
  if (candidate !== null && path !== INSTRUCTION_FILE)
    throw new Problem(fileNotEditable, `Only ${INSTRUCTION_FILE} of a generated task can be changed.`)
}

/** Stores the task with the new file, after the same checks as for an import. */
async function storeEditedTask(deps: EditFileDeps, row: FullTaskRow, { path, content }: FileEdit) {
  const stored = await readStoredFiles(deps, row)
  await using scratch = await openScratchFolder(deps.scratchFolder)
  const folder = join(scratch.path, 'task')
  await contentStore(deps).unpack(stored, folder)
  await writeFile(join(folder, path), content)
  const result = await storeTask(deps, folder, row.id)
  if (result.kind === 'stored') return result.files
  const { reason, detail } = result
  throw new Problem(invalidRequest, detail, { errors: [{ pointer: '/content', code: reason, message: detail }] })
}
