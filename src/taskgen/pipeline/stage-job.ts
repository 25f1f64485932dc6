import { findContent } from '../../contents/contents.ts'
import { ModelUnfit } from '../../gateway/model-terms.ts'
import { defineJobHandler, type Job, type JobHandler } from '../../platform/jobs/jobs.ts'
import { MirrorRefused } from '../../repos/mirror/source.ts'
import { SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { openScratch } from '../../trials/scratch.ts'
import { type EnqueueDeps, type StagePayload, sandboxOf, sandboxWatchJobType, stageJobType } from './enqueue.ts'
import { findTask, loadCandidateState, type TaskFacts } from './facts.ts'
import { hashInput } from './input-digest.ts'
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
} from './stage-context.ts'
import { storable, storableText } from './storable.ts'
import { storeTask } from './store-task.ts'

export type StageJobDeps = StageWorkDeps & EnqueueDeps & { draftsFolder: string }

/** Runs stages: those without sandboxes, or those in one sandbox. */
export const stageJob = (deps: StageJobDeps, sandbox: string | undefined): JobHandler<StagePayload> =>
  defineJobHandler(stageJobType(sandbox), {
    run: (job) => runStage(deps, job),
    onGivenUp: async (tx, payload, reason) => {
      const task = await findTask(tx, payload)
      const word = sandbox === undefined ? 'internal_error' : 'environment_failed'
      if (task?.stage === payload.stage)
        await settleStage(tx, deps, task, { kind: 'rejected', reason: word, detail: reason })
    },
  })

/** Checks whether the sandbox is available again: enqueues the stage's job, or waits again. */
export const sandboxWatchJob = (deps: EnqueueDeps): JobHandler<StagePayload> =>
  defineJobHandler(sandboxWatchJobType, { run: (job) => finishWithSuccessor(deps, job) })

/** Runs a stage. Only its end is stored, once, under the lease: a worker that dies earlier leaves only its spend. */
async function runStage(deps: StageJobDeps, job: Job<StagePayload>): Promise<void> {
  const { db, step = () => {} } = deps
  step('stage.claimed')
  const task = await findTask(db, job.payload)
  if (!task || task.stage !== job.payload.stage) return finishWithSuccessor(deps, job)
  if (task.isDeferred) await job.write((tx) => endWaiting(tx, deps, task))
  const { state, concerns } = await loadCandidateState(db, task)
  step('stage.read')
  const ending = await attemptStage(deps, task, state, job.signal)
  step('stage.closed')
  await job.finish(async (tx) => {
    await settleStage(tx, deps, task, ending.kind === 'passed' ? { ...ending, concerns } : ending)
    step('stage.settled')
  })
  step('stage.finished')
}

/** Finishes the job and enqueues a successor if the task is still in progress. */
async function finishWithSuccessor(deps: EnqueueDeps, job: Job<StagePayload>): Promise<void> {
  await job.finish((tx) => enqueueSuccessor(tx, deps, job.payload))
}

type StageAttempt =
  | Exclude<StageEnding, { kind: 'passed' }>
  | Omit<Extract<StageEnding, { kind: 'passed' }>, 'concerns'>

async function attemptStage(
  deps: StageJobDeps,
  task: TaskFacts,
  state: CandidateState,
  signal: AbortSignal,
): Promise<StageAttempt> {
  const { version, cacheInputs } = deps.stages[task.stage]
  const digest = hashInput({ stage: task.stage, version, inputs: cacheInputs(state) })
  const known = await findCachedResult(deps, task, digest)
  if (known) return { kind: 'passed', digest, outcome: known.result, seconds: known.seconds, isReused: true }
  try {
    return await executeStage(deps, task, state, { digest, signal })
  } catch (error) {
    signal.throwIfAborted()
    return toEnding(deps, task, error)
  }
}

/** Finds a cached result whose files still exist. */
async function findCachedResult(deps: StageJobDeps, { workspaceId, stage }: TaskFacts, digest: string) {
  const known = await findResult(deps.db, { workspaceId, stage, digest })
  const files = known?.result.files
  if (!files || (await findContent(deps, files.digest))) return known
  await forgetResult(deps.db, { workspaceId, stage, digest })
  return undefined
}

type AttemptContext = { digest: string; signal: AbortSignal }

async function executeStage(
  deps: StageJobDeps,
  task: TaskFacts,
  state: CandidateState,
  { digest, signal }: AttemptContext,
): Promise<StageAttempt> {
  await requireCredentials(deps, task)
  const started = performance.now()
  await using scratch = await openScratch(deps.folder)
  await using own = await openStageContext(deps, task, scratch.path, signal)
  const result = await deps.stages[task.stage].run(state, own, signal)
  deps.step?.('stage.ran')
  if (result.kind !== 'done') return result
  const seconds = (performance.now() - started) / 1000
  const outcome = toStorableOutcome(result.value)
  if (task.stage !== ASSEMBLY_STAGE) return { kind: 'passed', digest, outcome, seconds, isReused: false }
  const kept = await storeTask(deps, own.target, task.task)
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
async function toEnding(deps: StageJobDeps, task: TaskFacts, error: unknown): Promise<StageAttempt> {
  if (error instanceof HistoryMissing) return { kind: 'rejected', reason: 'history_rewritten', detail: error.message }
  if (error instanceof CandidateBudgetSpent)
    return { kind: 'rejected', reason: `${error.role}_budget`, detail: error.message }
  if (error instanceof BatchBudgetSpent) return deferAttempt('budget', error, RETRY_LATE_MS)
  if (error instanceof StageCredentialMissing) return deferAttempt('credential', error, RETRY_LATE_MS)
  if (error instanceof ModelUnfit) return deferAttempt('config', error, RETRY_LATE_MS)
  if (error instanceof MirrorRefused)
    return deferAttempt('code_host', error, error.isLasting ? RETRY_LATE_MS : RETRY_MS)
  if (error instanceof SandboxUnavailable) return diagnoseSandbox(deps, task, error)
  throw error
}

/** If the provider's self-test passes, the failure is attributed to the task. */
async function diagnoseSandbox(deps: StageJobDeps, task: TaskFacts, error: SandboxUnavailable): Promise<StageAttempt> {
  const place = sandboxOf(deps.stages[task.stage], task.generation)
  const provider = place === undefined ? undefined : deps.findProvider(place)
  const trouble = await provider?.selfTest().then(
    () => undefined,
    (reason: unknown) => (reason instanceof SandboxUnavailable ? reason : error),
  )
  if (provider && !trouble) throw error
  return deferAttempt('sandbox', trouble ?? error, deps.sandboxWaitMs)
}
