import { type Db, lock } from '../../platform/db/db.ts'
import { runIdOf, type Waiting } from '../schema.ts'
import { lockOpenBatch } from './batch-state.ts'
import { type EnqueueTools, enqueueStage } from './enqueue.ts'
import { findTask, type TaskFacts } from './facts.ts'
import { countSpend } from './spend.ts'
import * as rows from './sql.ts'
import { stageAfter } from './stage.ts'
import { storable, storableText } from './storable.ts'
import { tend } from './tend.ts'

/** How one attempt at a stage came to its end. */
export type Ending =
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
 * Writes the end of an attempt: what was found out, what was spent, and what comes next. Also of a batch that was
 * canceled meanwhile: the work is done and paid for, and a resume goes on after it. Locks as everybody does: the job,
 * the batch, its tasks.
 */
export async function settle(tx: Db, tools: EnqueueTools, task: TaskFacts, ending: Ending): Promise<void> {
  const isOpen = (await lockOpenBatch(tx, task.batch)) !== undefined
  await countSpend(tx, task)
  if (ending.kind === 'passed') await pass(tx, tools, task, ending, isOpen)
  if (ending.kind === 'rejected') {
    const { reason, detail, evidence } = ending
    const found = evidence === undefined ? undefined : storable(JSON.parse(JSON.stringify(evidence)))
    await rows.rejectTask(tx, task, task.stage, { reason, detail: shortened(detail), evidence: found })
  }
  if (ending.kind === 'deferred' && isOpen) await defer(tx, tools, task, ending)
  await tend(tx, tools, task.batch)
}

const DETAIL_MAX = 10_000
const shortened = (text: string): string => storableText(text.slice(0, DETAIL_MAX))

const WAIT_MAX_MS = 3_600_000

type Passed = Extract<Ending, { kind: 'passed' }>

async function pass(tx: Db, tools: EnqueueTools, task: TaskFacts, ending: Passed, isOpen: boolean): Promise<void> {
  const { digest, seconds, isReused } = ending
  const key = { workspaceId: task.workspaceId, stage: task.stage, digest }
  const outcome = isReused ? ending.outcome : await rows.saveResult(tx, key, ending.outcome, seconds)
  const next = stageAfter(task.stage)
  // Of two that get ready at once, one is the newer.
  if (!next) await lock(tx, `pull request ${landedOf(task).repository} ${landedOf(task).head}`)
  const concerns = [...ending.concerns, ...(outcome.concerns ?? [])]
  const { title, difficulty, files } = outcome
  if (!(await rows.passTask(tx, task, task.stage, { next, title, difficulty, files, concerns }))) return
  await rows.insertPassed(tx, task, key, isReused)
  if (!next) await takePlace(tx, task)
  if (next && isOpen) await enqueueStage(tx, tools, task, next)
}

const landedOf = ({ batch, task, repository, candidate }: TaskFacts) => ({
  ...{ batch, task, repository: repository.key, head: candidate.head },
})

/** One pull request is one task: the newest. What a person has decided stays, and is told. */
async function takePlace(tx: Db, task: TaskFacts): Promise<void> {
  const own = landedOf(task)
  await rows.supersede(tx, own, `${runIdOf(own.batch)}/${own.task} was made of the same pull request later.`)
  for (const other of await rows.listApprovedOf(tx, own)) {
    const concern = `${runIdOf(other.batch)}/${other.task} was made of the same pull request, and is approved.`
    await rows.addConcern(tx, own, concern)
  }
}

async function defer(
  tx: Db,
  tools: EnqueueTools,
  task: TaskFacts,
  { reason, detail, retryAfterMs }: Extract<Ending, { kind: 'deferred' }>,
): Promise<void> {
  const until = new Date(Date.now() + Math.min(Math.max(0, retryAfterMs), WAIT_MAX_MS))
  const deferral = { reason, detail: shortened(detail), until: until.toISOString() }
  await rows.deferTask(tx, task, task.stage, deferral)
  await enqueueStage(tx, tools, task, task.stage, until)
}

/** A job that ends while its task is being made, in a batch that goes on, has a successor: whoever resumed it saw this job. */
export async function rejoin(tx: Db, tools: EnqueueTools, key: rows.TaskKey): Promise<void> {
  await lockOpenBatch(tx, key.batch)
  const task = await findTask(tx, key)
  if (!task) return
  await rows.endDeferral(tx, task)
  await enqueueStage(tx, tools, task, task.stage)
  await tend(tx, tools, key.batch)
}

/** It waited, and is being tried again. */
export async function wake(tx: Db, tools: EnqueueTools, key: rows.TaskKey): Promise<void> {
  await lockOpenBatch(tx, key.batch)
  await rows.endDeferral(tx, key)
  await tend(tx, tools, key.batch)
}
