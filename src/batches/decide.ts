import { type Db, transact } from '../platform/db/db.ts'
import { type FieldError, invalidRequest, Problem, type ProblemKind } from '../platform/problem.ts'
import { toRunId } from '../taskgen/schema.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { type BatchTask, taskChanged, taskNotGreen, taskNotReady } from './schema.ts'
import * as rows from './sql.ts'
import { toBatchTask } from './tasks.ts'

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
