import { type Db, lock } from '../../platform/db/db.ts'
import { toRunId, type Waiting } from '../schema.ts'
import { lockOpenBatch } from './batch-state.ts'
import { type EnqueueDeps, enqueueStage } from './enqueue.ts'
import { findTask, type TaskFacts } from './facts.ts'
import { countSpend } from './spend.ts'
import * as rows from './sql.ts'
import { stageAfter } from './stage.ts'
import { storable, storableText } from './storable.ts'
import { updateBatchState } from './update-batch-state.ts'

/** Outcome of one attempt at a stage. */
export type StageEnding =
  | {
      kind: 'passed'
      digest: string
      outcome: rows.StageOutcome
      seconds: number
      isReused: boolean
      concerns: string[]
    }
  | { kind: 'rejected'; reason: string; detail: string; evidence?: unknown }
  | { kind: 'deferred'; reason: Waiting['reason']; detail: string; retryAfterMs: number }

/**
 * Stores the outcome and spend of an attempt and enqueues the next stage. Also stores results of a batch that was
 * canceled meanwhile, so that a resume continues after them. Lock order: job, batch, tasks.
 */
export async function settleStage(tx: Db, deps: EnqueueDeps, task: TaskFacts, ending: StageEnding): Promise<void> {
  const isOpen = (await lockOpenBatch(tx, task.batch)) !== undefined
  await countSpend(tx, task)
  if (ending.kind === 'passed') await passStage(tx, deps, task, ending, isOpen)
  if (ending.kind === 'rejected') {
    const { reason, detail, evidence } = ending
    const found = evidence === undefined ? undefined : storable(JSON.parse(JSON.stringify(evidence)))
    await rows.rejectTask(tx, task, task.stage, { reason, detail: cutDetail(detail), evidence: found })
  }
  if (ending.kind === 'deferred' && isOpen) await deferStage(tx, deps, task, ending)
  await updateBatchState(tx, deps, task.batch)
}

const DETAIL_MAX = 10_000
const cutDetail = (text: string): string => storableText(text.slice(0, DETAIL_MAX))

const WAIT_MAX_MS = 3_600_000

type PassedEnding = Extract<StageEnding, { kind: 'passed' }>

async function passStage(
  tx: Db,
  deps: EnqueueDeps,
  task: TaskFacts,
  ending: PassedEnding,
  isOpen: boolean,
): Promise<void> {
  const { digest, seconds, isReused } = ending
  const key = { workspaceId: task.workspaceId, stage: task.stage, digest }
  const outcome = isReused ? ending.outcome : await rows.saveResult(tx, key, ending.outcome, seconds)
  const next = stageAfter(task.stage)
  // Serialises tasks of the same pull request that become ready concurrently.
  if (!next) await lock(tx, `pull request ${toTaskOrigin(task).repository} ${toTaskOrigin(task).head}`)
  const concerns = [...ending.concerns, ...(outcome.concerns ?? [])]
  const { title, difficulty, files } = outcome
  if (!(await rows.passTask(tx, task, task.stage, { next, title, difficulty, files, concerns }))) return
  await rows.insertPassed(tx, task, key, isReused)
  if (!next) await supersedeOlderTasks(tx, task)
  if (next && isOpen) await enqueueStage(tx, deps, task, next)
}

const toTaskOrigin = ({ batch, task, repository, candidate }: TaskFacts) => ({
  batch,
  task,
  repository: repository.key,
  head: candidate.head,
})

/** Only the newest task of a pull request stays ready. Decided tasks are kept and reported as a concern. */
async function supersedeOlderTasks(tx: Db, task: TaskFacts): Promise<void> {
  const own = toTaskOrigin(task)
  await rows.supersede(tx, own, `${toRunId(own.batch)}/${own.task} was made of the same pull request later.`)
  for (const other of await rows.listApprovedSiblings(tx, own)) {
    const concern = `${toRunId(other.batch)}/${other.task} was made of the same pull request, and is approved.`
    await rows.addConcern(tx, own, concern)
  }
}

async function deferStage(
  tx: Db,
  deps: EnqueueDeps,
  task: TaskFacts,
  { reason, detail, retryAfterMs }: Extract<StageEnding, { kind: 'deferred' }>,
): Promise<void> {
  const until = new Date(Date.now() + Math.min(Math.max(0, retryAfterMs), WAIT_MAX_MS))
  const deferral = { reason, detail: cutDetail(detail), until: until.toISOString() }
  await rows.deferTask(tx, task, task.stage, deferral)
  await enqueueStage(tx, deps, task, task.stage, until)
}

/** Enqueues a successor if the task is still in progress: a resume may have relied on this job. */
export async function enqueueSuccessor(tx: Db, deps: EnqueueDeps, key: rows.TaskKey): Promise<void> {
  await lockOpenBatch(tx, key.batch)
  const task = await findTask(tx, key)
  if (!task) return
  await rows.endDeferral(tx, task)
  await enqueueStage(tx, deps, task, task.stage)
  await updateBatchState(tx, deps, key.batch)
}

/** Ends a deferral before a retry. */
export async function endWaiting(tx: Db, deps: EnqueueDeps, key: rows.TaskKey): Promise<void> {
  await lockOpenBatch(tx, key.batch)
  await rows.endDeferral(tx, key)
  await updateBatchState(tx, deps, key.batch)
}
