import { findContent } from '../../contents/contents.ts'
import { ModelUnfit } from '../../gateway/model-terms.ts'
import type { Job, RunnableKind } from '../../platform/jobs/jobs.ts'
import { MirrorRefused } from '../../repos/mirror/source.ts'
import { SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { openScratch } from '../../trials/scratch.ts'
import { type EnqueueTools, lookKind, placeOf, type StagePayload, stageKind } from './enqueue.ts'
import { findTask, makingOf, type TaskFacts } from './facts.ts'
import { inputDigest } from './input-digest.ts'
import { keepFiles } from './keep-files.ts'
import { type Ending, rejoin, settle, wake } from './settle.ts'
import { findResult, forgetResult } from './sql.ts'
import { ASSEMBLING, type Making, type StageDone } from './stage.ts'
import {
  BudgetSpent,
  CredentialGone,
  HistoryGone,
  openStageTools,
  requireCredentials,
  ShareSpent,
  type WorkTools,
} from './stage-tools.ts'
import { storable, storableText } from './storable.ts'

export type StageJobTools = WorkTools & EnqueueTools & { draftsFolder: string }

/** Runs stages: those without sandboxes, or those in one sandbox. */
export const stageJob = (tools: StageJobTools, sandbox: string | undefined): RunnableKind<StagePayload> => ({
  ...stageKind(sandbox),
  run: (job) => runStage(tools, job),
  failed: async (tx, payload, reason) => {
    const task = await findTask(tx, payload)
    const word = sandbox === undefined ? 'internal_error' : 'environment_failed'
    if (task?.stage === payload.stage) await settle(tx, tools, task, { kind: 'rejected', reason: word, detail: reason })
  },
})

/** Whether somebody offers the sandbox by now: then the stage's own job waits, else this one comes again. */
export const lookJob = (tools: EnqueueTools): RunnableKind<StagePayload> => ({
  ...lookKind,
  run: (job) => leave(tools, job),
})

/** The conductor. Only the end is written down, once, under the lease: who dies before it leaves nothing but what was spent. */
async function runStage(tools: StageJobTools, job: Job<StagePayload>): Promise<void> {
  const { db, step = () => {} } = tools
  step('stage.claimed')
  const task = await findTask(db, job.payload)
  if (!task || task.stage !== job.payload.stage) return leave(tools, job)
  if (task.isDeferred) await job.write((tx) => wake(tx, tools, task))
  const { making, concerns } = await makingOf(db, task)
  step('stage.read')
  const ending = await attempt(tools, task, making, job.signal)
  step('stage.closed')
  await job.finish(async (tx) => {
    await settle(tx, tools, task, ending.kind === 'passed' ? { ...ending, concerns } : ending)
    step('stage.settled')
  })
  step('stage.finished')
}

/** Ends the job, and sees to it that the task has one if it goes on. */
async function leave(tools: EnqueueTools, job: Job<StagePayload>): Promise<void> {
  await job.finish((tx) => rejoin(tx, tools, job.payload))
}

type Attempt = Exclude<Ending, { kind: 'passed' }> | Omit<Extract<Ending, { kind: 'passed' }>, 'concerns'>

async function attempt(tools: StageJobTools, task: TaskFacts, making: Making, signal: AbortSignal): Promise<Attempt> {
  const { version, reads } = tools.stages[task.stage]
  const digest = inputDigest({ stage: task.stage, version, reads: reads(making) })
  const known = await findKnown(tools, task, digest)
  if (known) return { kind: 'passed', digest, outcome: known.result, seconds: known.seconds, isReused: true }
  try {
    return await worked(tools, task, making, { digest, signal })
  } catch (error) {
    signal.throwIfAborted()
    return stopped(tools, task, error)
  }
}

/** What was found out before, with its files. */
async function findKnown(tools: StageJobTools, { workspaceId, stage }: TaskFacts, digest: string) {
  const known = await findResult(tools.db, { workspaceId, stage, digest })
  const files = known?.result.files
  if (!files || (await findContent(tools, files.digest))) return known
  await forgetResult(tools.db, { workspaceId, stage, digest })
  return undefined
}

type Wanted = { digest: string; signal: AbortSignal }

async function worked(
  tools: StageJobTools,
  task: TaskFacts,
  making: Making,
  { digest, signal }: Wanted,
): Promise<Attempt> {
  await requireCredentials(tools, task)
  const started = performance.now()
  await using scratch = await openScratch(tools.folder)
  await using own = await openStageTools(tools, task, scratch.path, signal)
  const result = await tools.stages[task.stage].run(making, own, signal)
  tools.step?.('stage.ran')
  if (result.kind !== 'done') return result
  const seconds = (performance.now() - started) / 1000
  const outcome = outcomeOf(result.value)
  if (task.stage !== ASSEMBLING) return { kind: 'passed', digest, outcome, seconds, isReused: false }
  const kept = await keepFiles(tools, own.target, task.task)
  if (kept.kind === 'rejected') return kept
  return { kind: 'passed', digest, outcome: { ...outcome, files: kept.files }, seconds, isReused: false }
}

const TITLE_MAX = 200

/** As the database can keep it. Models and strangers wrote it. */
const outcomeOf = ({ made, evidence, concerns, title, difficulty }: StageDone): StageDone => ({
  ...{ made: storable(made), evidence: storable(evidence) },
  ...(concerns ? { concerns: concerns.map(storableText) } : {}),
  ...(title === undefined ? {} : { title: storableText(title.slice(0, TITLE_MAX)) }),
  ...(difficulty === undefined ? {} : { difficulty }),
})

const SOON_MS = 60_000
const LATER_MS = 3_600_000

const deferred = (
  reason: Extract<Ending, { kind: 'deferred' }>['reason'],
  error: Error,
  retryAfterMs: number,
): Attempt => ({ kind: 'deferred', reason, detail: error.message, retryAfterMs })

/** What is no fault of the task has it wait. What is thrown on is tried again, and in the end rejects it. */
async function stopped(tools: StageJobTools, task: TaskFacts, error: unknown): Promise<Attempt> {
  if (error instanceof HistoryGone) return { kind: 'rejected', reason: 'history_rewritten', detail: error.message }
  if (error instanceof ShareSpent) return { kind: 'rejected', reason: `${error.role}_budget`, detail: error.message }
  if (error instanceof BudgetSpent) return deferred('budget', error, LATER_MS)
  if (error instanceof CredentialGone) return deferred('credential', error, LATER_MS)
  if (error instanceof ModelUnfit) return deferred('config', error, LATER_MS)
  if (error instanceof MirrorRefused) return deferred('code_host', error, error.isLasting ? LATER_MS : SOON_MS)
  if (error instanceof SandboxUnavailable) return brokenSandbox(tools, task, error)
  throw error
}

/** Where the sandbox as a whole works, what breaks breaks with this task. */
async function brokenSandbox(tools: StageJobTools, task: TaskFacts, error: SandboxUnavailable): Promise<Attempt> {
  const place = placeOf(tools.stages[task.stage], task.generation)
  const provider = place === undefined ? undefined : tools.findProvider(place)
  const trouble = await provider?.selfTest().then(
    () => undefined,
    (reason: unknown) => (reason instanceof SandboxUnavailable ? reason : error),
  )
  if (provider && !trouble) throw error
  return deferred('sandbox', trouble ?? error, tools.sandboxWaitMs)
}
