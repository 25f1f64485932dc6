import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { contentStore } from '../contents/contents.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type FieldError, invalidRequest, Problem, type ProblemKind, preconditionFailed } from '../platform/problem.ts'
import { type BatchRow, lockBatch, reopenBatch, resetTask } from '../taskgen/pipeline/batch-state.ts'
import { enqueueDiscovery } from '../taskgen/pipeline/discover.ts'
import { INSTRUCTION_FILE } from '../taskgen/pipeline/input-digest.ts'
import { deleteReviewEvidence, storeTask } from '../taskgen/pipeline/store-task.ts'
import { isOpen, toRunId } from '../taskgen/schema.ts'
import { openScratchFolder } from '../trials/scratch-folder.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { enqueueImport } from './import.ts'
import { type BatchTask, batchStopped, fileNotEditable, taskChanged, taskNotGreen, taskNotReady } from './schema.ts'
import * as rows from './sql.ts'
import { type FullTaskRow, readStored, readTaskRow, toBatchTask } from './tasks.ts'

export type DecisionInput = {
  taskId: string
  decision: 'approved' | 'declined'
  digest: string
  note?: string | undefined
}

/** `alone`: one task, named by the path. `bulk`: all tasks in the body; an approved one must not have warnings. */
type DecisionMode = 'alone' | 'bulk'

/** Stores all decisions or none. A decision applies only to the digest that was reviewed. */
export function decide(
  db: Db,
  by: AuditActor,
  batch: string,
  wishes: readonly DecisionInput[],
  manner: DecisionMode,
): Promise<BatchTask[]> {
  requireDistinct(wishes)
  return transact(db, async (tx) => {
    const ids = wishes.map(({ taskId }) => taskId)
    const found = new Map((await rows.lockTaskRows(tx, batch, ids)).map((row) => [row.id, row]))
    requireDecidable(wishes, found, manner)
    if (manner === 'bulk') requireGreen(wishes, found)
    const decided: BatchTask[] = []
    for (const { taskId, decision, digest, note } of wishes) {
      decided.push(toBatchTask(await rows.decideTaskRow(tx, { batch, task: taskId }, { decision, note: note ?? null })))
      const detail = { decision, digest }
      await record(tx, { ...by, action: 'task.decided', subject: `${toRunId(batch)}/${taskId}`, detail })
    }
    return decided
  })
}

function requireDistinct(wishes: readonly DecisionInput[]): void {
  const seen = new Set<string>()
  const errors = wishes.flatMap(({ taskId }, place) => {
    const isDouble = seen.has(taskId)
    seen.add(taskId)
    return isDouble ? [errorAt('bulk', place, 'taskId', 'duplicate', 'This task is decided on twice.')] : []
  })
  refuse(invalidRequest, errors)
}

/** Checks in this order: missing tasks, tasks that are not ready, changed tasks. */
function requireDecidable(
  wishes: readonly DecisionInput[],
  found: ReadonlyMap<string, rows.TaskRow>,
  manner: DecisionMode,
): void {
  const where = (isWrong: (row: rows.TaskRow | undefined, wish: DecisionInput) => boolean) =>
    wishes.flatMap((wish, place) => (isWrong(found.get(wish.taskId), wish) ? [{ wish, place }] : []))
  refuse(
    invalidRequest,
    where((row) => row === undefined).map(({ place }) =>
      errorAt(manner, place, 'taskId', 'unknown_task', 'There is no such task in this batch.'),
    ),
  )
  refuse(
    taskNotReady,
    where((row) => row?.state !== 'ready').map(({ place, wish }) =>
      errorAt(manner, place, 'taskId', taskNotReady.code, `${wish.taskId} is ${found.get(wish.taskId)?.state}.`),
    ),
  )
  refuse(
    taskChanged,
    where((row, { digest }) => row?.digest !== digest).map(({ place, wish }) =>
      errorAt(manner, place, 'digest', taskChanged.code, `${wish.taskId} is ${found.get(wish.taskId)?.digest} now.`),
    ),
  )
}

/** Bulk approval skips individual review, so tasks with concerns must be decided one by one. */
function requireGreen(wishes: readonly DecisionInput[], found: ReadonlyMap<string, rows.TaskRow>): void {
  const errors = wishes.flatMap(({ taskId, decision }, place) => {
    const row = found.get(taskId)
    const [concern] = row && decision === 'approved' ? toBatchTask(row).concerns : []
    return concern === undefined ? [] : [errorAt('bulk', place, 'taskId', taskNotGreen.code, `${taskId}: ${concern}`)]
  })
  refuse(taskNotGreen, errors)
}

const errorAt = (
  manner: DecisionMode,
  place: number,
  field: 'taskId' | 'digest',
  code: string,
  message: string,
): FieldError => ({
  pointer: manner === 'bulk' ? `/decisions/${place}/${field}` : SINGLE_POINTERS[field],
  code,
  message,
})

/** The task is in the address: the body as a whole is about it. */
const SINGLE_POINTERS = { taskId: '', digest: '/digest' }

function refuse(kind: ProblemKind, errors: FieldError[]): void {
  const [first] = errors
  if (first) throw new Problem(kind, first.message, { errors })
}

export type EditFileDeps = { db: Db; blobs: Blobs; draftsFolder: string; scratchFolder: string }

type FileEdit = { path: string; content: string }

/**
 * Puts other text into a file. What depends on it is validated again: of a generated task only the instruction can be
 * changed, and nothing is executed again for that; an imported one is tried as if it had just come.
 */
export async function editFile(
  deps: EditFileDeps,
  by: AuditActor,
  row: FullTaskRow,
  edit: FileEdit,
): Promise<FullTaskRow> {
  requireEditable(row, edit.path)
  const kept = await storeEditedTask(deps, row, edit)
  await transact(deps.db, async (tx) => {
    // Lock order: the job first, then the row.
    await (row.candidate === null ? enqueueImport(tx, row.batch) : enqueueDiscovery(tx, row.batch))
    const batch = await lockUnchanged(tx, row)
    await resetTask(tx, { batch: row.batch, task: row.id }, kept, row.candidate === null ? null : edit.content)
    await deleteReviewEvidence(tx, row.batch, row.id)
    if (!isOpen(batch)) await reopenBatch(tx, batch)
    const subject = `${toRunId(row.batch)}/${row.id}`
    await record(tx, { ...by, action: 'task.edited', subject, detail: { path: edit.path, digest: kept.digest } })
  })
  return readTaskRow(deps.db, row.batch, row.id)
}

const STOPPED: readonly string[] = ['canceled', 'failed']

/** The batch of a task that is still the one that was read. */
async function lockUnchanged(tx: Db, row: FullTaskRow): Promise<BatchRow> {
  const batch = await lockBatch(tx, row.batch)
  if (!batch || STOPPED.includes(batch.state))
    throw new Problem(batchStopped, 'Resume the batch, then change the file.')
  const [now] = await rows.lockTaskRows(tx, row.batch, [row.id])
  if (now?.digest !== row.digest || now.state !== row.state)
    throw new Problem(preconditionFailed, 'Somebody changed the task meanwhile.')
  return batch
}

function requireEditable(
  { id, state, candidate }: Pick<FullTaskRow, 'id' | 'state' | 'candidate'>,
  path: string,
): void {
  if (state !== 'ready' && state !== 'rejected') throw new Problem(taskNotReady, `${id} is ${state}.`)
  if (candidate !== null && path !== INSTRUCTION_FILE)
    throw new Problem(
      fileNotEditable,
      `Of a task that was made of a pull request only ${INSTRUCTION_FILE} can be changed.`,
    )
}

/** All files with that one changed, checked and kept as if they had been imported. */
async function storeEditedTask(deps: EditFileDeps, row: FullTaskRow, { path, content }: FileEdit) {
  const stored = await readStored(deps, row)
  await using scratch = await openScratchFolder(deps.scratchFolder)
  const folder = join(scratch.path, 'task')
  await contentStore(deps).unpack(stored, folder)
  await writeFile(join(folder, path), content)
  const kept = await storeTask(deps, folder, row.id)
  if (kept.kind === 'kept') return kept.files
  const { reason, detail } = kept
  throw new Problem(invalidRequest, detail, { errors: [{ pointer: '/content', code: reason, message: detail }] })
}
