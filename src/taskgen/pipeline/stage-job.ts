import { findContent } from '../../contents/contents.ts'
import { ModelUnfit } from '../../gateway/model-terms.ts'
import { defineJobHandler, type Job, type JobHandler } from '../../platform/jobs/jobs.ts'
import { MirrorRefused } from '../../repos/mirror/source.ts'
import { SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { openScratch } from '../../trials/scratch.ts'
import { type EnqueueDeps, type StagePayload, sandboxOf, sandboxWatchJobType, stageJobType } from './enqueue.ts'
import { findTask, loadCandidateState, type TaskFacts } from './facts.ts'
import { hashInput } from './input-digest.ts'
import { storeTask } from './keep-files.ts'
import { endWaiting, enqueueSuccessor, type StageEnding, settleStage } from './settle.ts'
import { findResult, forgetResult } from './sql.ts'
import { ASSEMBLY_STAGE, type CandidateState, type StageDone } from './stage.ts'
import {
  BatchBudgetSpent,
  CandidateBudgetSpent,
  HistoryMissing,
  openStageContext,
  requireCredentials,
  StageCredentialMissing,
  type StageWorkDeps,
} from './stage-tools.ts'
import { storable, storableText } from './storable.ts'

export type StageJobDeps = StageWorkDeps & EnqueueDeps & { draftsFolder: string }

/** Runs stages: those without sandboxes, or those in one sandbox. */
export const stageJob = (tools: StageJobDeps, sandbox: string | undefined): JobHandler<StagePayload> =>
  defineJobHandler(stageJobType(sandbox), {
    run: (job) => runStage(tools, job),
    onGivenUp: async (tx, payload, reason) => {
      const task = await findTask(tx, payload)
      const word = sandbox === undefined ? 'internal_error' : 'environment_failed'
      if (task?.stage === payload.stage)
        await settleStage(tx, tools, task, { kind: 'rejected', reason: word, detail: reason })
    },
  })

/** Checks whether the sandbox is available again: enqueues the stage's job, or waits again. */
export const sandboxWatchJob = (tools: EnqueueDeps): JobHandler<StagePayload> =>
  defineJobHandler(sandboxWatchJobType, { run: (job) => finishWithSuccessor(tools, job) })

/** The conductor. Only the end is written down, once, under the lease: who dies before it leaves nothing but what was spent. */
async function runStage(tools: StageJobDeps, job: Job<StagePayload>): Promise<void> {
  const { db, step = () => {} } = tools
  step('stage.claimed')
  const task = await findTask(db, job.payload)
  if (!task || task.stage !== job.payload.stage) return finishWithSuccessor(tools, job)
  if (task.isDeferred) await job.write((tx) => endWaiting(tx, tools, task))
  const { making, concerns } = await loadCandidateState(db, task)
  step('stage.read')
  const ending = await attemptStage(tools, task, making, job.signal)
  step('stage.closed')
  await job.finish(async (tx) => {
    await settleStage(tx, tools, task, ending.kind === 'passed' ? { ...ending, concerns } : ending)
    step('stage.settled')
  })
  step('stage.finished')
}

/** Finishes the job and enqueues a successor if the task is still in progress. */
async function finishWithSuccessor(tools: EnqueueDeps, job: Job<StagePayload>): Promise<void> {
  await job.finish((tx) => enqueueSuccessor(tx, tools, job.payload))
}

type StageAttempt =
  | Exclude<StageEnding, { kind: 'passed' }>
  | Omit<Extract<StageEnding, { kind: 'passed' }>, 'concerns'>

async function attemptStage(
  tools: StageJobDeps,
  task: TaskFacts,
  making: CandidateState,
  signal: AbortSignal,
): Promise<StageAttempt> {
  const { version, reads } = tools.stages[task.stage]
  const digest = hashInput({ stage: task.stage, version, reads: reads(making) })
  const known = await findCachedResult(tools, task, digest)
  if (known) return { kind: 'passed', digest, outcome: known.result, seconds: known.seconds, isReused: true }
  try {
    return await executeStage(tools, task, making, { digest, signal })
  } catch (error) {
    signal.throwIfAborted()
    return toEnding(tools, task, error)
  }
}

/** Finds a cached result whose files still exist. */
async function findCachedResult(tools: StageJobDeps, { workspaceId, stage }: TaskFacts, digest: string) {
  const known = await findResult(tools.db, { workspaceId, stage, digest })
  const files = known?.result.files
  if (!files || (await findContent(tools, files.digest))) return known
  await forgetResult(tools.db, { workspaceId, stage, digest })
  return undefined
}

type AttemptContext = { digest: string; signal: AbortSignal }

async function executeStage(
  tools: StageJobDeps,
  task: TaskFacts,
  making: CandidateState,
  { digest, signal }: AttemptContext,
): Promise<StageAttempt> {
  await requireCredentials(tools, task)
  const started = performance.now()
  await using scratch = await openScratch(tools.folder)
  await using own = await openStageContext(tools, task, scratch.path, signal)
  const result = await tools.stages[task.stage].run(making, own, signal)
  tools.step?.('stage.ran')
  if (result.kind !== 'done') return result
  const seconds = (performance.now() - started) / 1000
  const outcome = toStorableOutcome(result.value)
  if (task.stage !== ASSEMBLY_STAGE) return { kind: 'passed', digest, outcome, seconds, isReused: false }
  const kept = await storeTask(tools, own.target, task.task)
  if (kept.kind === 'rejected') return kept
  return { kind: 'passed', digest, outcome: { ...outcome, files: kept.files }, seconds, isReused: false }
}

const TITLE_MAX = 200

/** Makes untrusted text storable in PostgreSQL. */
const toStorableOutcome = ({ made, evidence, concerns, title, difficulty }: StageDone): StageDone => ({
  made: storable(made),
  evidence: storable(evidence),
  concerns: concerns?.map(storableText),
  title: title === undefined ? undefined : storableText(title.slice(0, TITLE_MAX)),
  difficulty,
})

const RETRY_MS = 60_000
const RETRY_LATE_MS = 3_600_000

const deferAttempt = (
  reason: Extract<StageEnding, { kind: 'deferred' }>['reason'],
  error: Error,
  retryAfterMs: number,
): StageAttempt => ({ kind: 'deferred', reason, detail: error.message, retryAfterMs })

/** Failures that are not the task's fault defer it. Rethrown errors are retried and finally reject it. */
async function toEnding(tools: StageJobDeps, task: TaskFacts, error: unknown): Promise<StageAttempt> {
  if (error instanceof HistoryMissing) return { kind: 'rejected', reason: 'history_rewritten', detail: error.message }
  if (error instanceof CandidateBudgetSpent)
    return { kind: 'rejected', reason: `${error.role}_budget`, detail: error.message }
  if (error instanceof BatchBudgetSpent) return deferAttempt('budget', error, RETRY_LATE_MS)
  if (error instanceof StageCredentialMissing) return deferAttempt('credential', error, RETRY_LATE_MS)
  if (error instanceof ModelUnfit) return deferAttempt('config', error, RETRY_LATE_MS)
  if (error instanceof MirrorRefused)
    return deferAttempt('code_host', error, error.isLasting ? RETRY_LATE_MS : RETRY_MS)
  if (error instanceof SandboxUnavailable) return diagnoseSandbox(tools, task, error)
  throw error
}

/** If the provider's self-test passes, the failure is attributed to the task. */
async function diagnoseSandbox(tools: StageJobDeps, task: TaskFacts, error: SandboxUnavailable): Promise<StageAttempt> {
  const place = sandboxOf(tools.stages[task.stage], task.generation)
  const provider = place === undefined ? undefined : tools.findProvider(place)
  const trouble = await provider?.selfTest().then(
    () => undefined,
    (reason: unknown) => (reason instanceof SandboxUnavailable ? reason : error),
  )
  if (provider && !trouble) throw error
  return deferAttempt('sandbox', trouble ?? error, tools.sandboxWaitMs)
}
