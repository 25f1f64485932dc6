import { type Db, transact } from '../platform/db/db.ts'
import { type FieldError, invalidRequest, Problem, type ProblemKind } from '../platform/problem.ts'
import { toRunId } from '../taskgen/schema.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { type BatchTask, taskChanged, taskNotGreen, taskNotReady } from './schema.ts'
import * as rows from './sql.ts'
import { toBatchTask } from './tasks.ts'

type DecisionInput = {
  taskId: string
  decision: 'approved' | 'declined'
  digest: string
  note?: string | undefined
}

/** `single`: one task, identified by the path. `bulk`: the tasks in the body; approved tasks must have no warnings. */
type DecisionMode = 'single' | 'bulk'

/** Stores all decisions or none. A decision applies only to the digest that was reviewed. */
export function decide(
  db: Db,
  by: AuditActor,
  batch: string,
  inputs: readonly DecisionInput[],
  mode: DecisionMode,
): Promise<BatchTask[]> {
  requireDistinct(inputs)
  return transact(db, async (tx) => {
    const ids = inputs.map(({ taskId }) => taskId)
    const rowsById = new Map((await rows.lockTaskRows(tx, batch, ids)).map((row) => [row.id, row]))
    requireDecidable(inputs, rowsById, mode)
    if (mode === 'bulk') requireNoWarnings(inputs, rowsById)
    const decided: BatchTask[] = []
    for (const { taskId, decision, digest, note } of inputs) {
      decided.push(toBatchTask(await rows.decideTaskRow(tx, { batch, task: taskId }, { decision, note: note ?? null })))
      const detail = { decision, digest }
      await record(tx, { ...by, action: 'task.decided', subject: `${toRunId(batch)}/${taskId}`, detail })
    }
    return decided
  })
}

function requireDistinct(inputs: readonly DecisionInput[]): void {
  const earlierIds = new Set<string>()
  const errors = inputs.flatMap(({ taskId }, index) => {
    const isDuplicate = earlierIds.has(taskId)
    earlierIds.add(taskId)
    return isDuplicate
      ? [toFieldError('bulk', index, 'taskId', 'duplicate', 'The task occurs twice. Decide on each task once.')]
      : []
  })
  refuse(invalidRequest, errors)
}

/** Checks in this order: missing tasks, tasks that are not ready, changed tasks. */
function requireDecidable(
  inputs: readonly DecisionInput[],
  rowsById: ReadonlyMap<string, rows.TaskRow>,
  mode: DecisionMode,
): void {
  const refuseIf = (kind: ProblemKind, field: 'taskId' | 'digest', code: string, findFault: FindFault) =>
    refuse(
      kind,
      inputs.flatMap((input, index) => {
        const fault = findFault(input, rowsById.get(input.taskId))
        return fault === undefined ? [] : [toFieldError(mode, index, field, code, fault)]
      }),
    )
  refuseIf(invalidRequest, 'taskId', 'unknown_task', (_, row) => (row ? undefined : 'Task not found in this batch'))
  refuseIf(taskNotReady, 'taskId', taskNotReady.code, ({ taskId }, row) =>
    row?.state === 'ready' ? undefined : `${taskId} is ${row?.state}; only a ready task can be decided on.`,
  )
  refuseIf(taskChanged, 'digest', taskChanged.code, ({ taskId, digest }, row) =>
    row?.digest === digest ? undefined : `${taskId} has changed: its digest is now ${row?.digest}. Review it again.`,
  )
}

type FindFault = (input: DecisionInput, row: rows.TaskRow | undefined) => string | undefined

/** Bulk approval skips individual review, so tasks with warnings must be decided one by one. */
function requireNoWarnings(inputs: readonly DecisionInput[], rowsById: ReadonlyMap<string, rows.TaskRow>): void {
  const errors = inputs.flatMap(({ taskId, decision }, index) => {
    const row = rowsById.get(taskId)
    const [concern] = row && decision === 'approved' ? toBatchTask(row).concerns : []
    return concern === undefined
      ? []
      : [toFieldError('bulk', index, 'taskId', taskNotGreen.code, `${taskId}: ${concern}`)]
  })
  refuse(taskNotGreen, errors)
}

const toFieldError = (
  mode: DecisionMode,
  index: number,
  field: 'taskId' | 'digest',
  code: string,
  message: string,
): FieldError => ({
  pointer: mode === 'bulk' ? `/decisions/${index}/${field}` : SINGLE_POINTERS[field],
  code,
  message,
})

/** Pointers for a single decision. The task id is in the path, so its errors point to the whole body. */
const SINGLE_POINTERS = { taskId: '', digest: '/digest' }

function refuse(kind: ProblemKind, errors: FieldError[]): void {
  const [first] = errors
  if (first) throw new Problem(kind, first.message, { errors })
}
