import { findContent } from '../../contents/contents.ts'
import { ModelUnfit } from '../../gateway/model-connection.ts'
import type { Json } from '../../harnesses/json.ts'
import { DISK_FULL, isCausedByDisk, isDiskFull } from '../../platform/data-folder.ts'
import { type Db, lock, storableJson, storableText } from '../../platform/db/db.ts'
import { defineJobHandler, defineRecurringJob, type Job, type JobHandler } from '../../platform/jobs/jobs.ts'
import { MirrorRefused } from '../../repos/mirror/source.ts'
import { openScratchFolder } from '../../sandboxes/kernel/ownership.ts'
import { SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { storeTask } from '../assembly/screen-task.ts'
import { toRunId, type Waiting } from '../schema.ts'
import { lockOpenBatch, updateBatchState, updateBatchStates } from './batch-state.ts'
import { type DiscoverDeps, discoverJob } from './discover.ts'
import { type EnqueueDeps, enqueueStage, type StagePayload, sandboxWatchJobType, stageJobType } from './enqueue.ts'
import {
  countRemainingSpend,
  countSpend,
  findTaskInProgress,
  hashInput,
  loadCandidateState,
  type TaskFacts,
} from './facts.ts'
import * as rows from './sql.ts'
import { ASSEMBLY_STAGE, type CandidateState, type StageDone, stageAfter } from './stage.ts'
import {
  BatchBudgetSpent,
  CandidateBudgetSpent,
  findTaskProvider,
  HistoryMissing,
  openStageContext,
  requireCredentials,
  StageCredentialMissing,
  type StageWorkDeps,
} from './stage-context.ts'

type StageJobDeps = StageWorkDeps & EnqueueDeps & { draftsFolder: string }

/** Runs stages: those without sandboxes, or those in one sandbox. */
export const stageJob = (deps: StageJobDeps, sandbox: string | undefined): JobHandler<StagePayload> =>
  defineJobHandler(stageJobType(sandbox), {
    run: (job) => runStage(deps, job),
    onGivenUp: async (tx, payload, reason) => {
      const task = await findTaskInProgress(tx, payload)
      const code = sandbox === undefined ? 'internal_error' : 'environment_failed'
      if (task?.stage === payload.stage)
        await settleStage(tx, deps, task, { kind: 'rejected', reason: code, detail: reason })
    },
  })

/** Checks whether the sandbox is available again: enqueues the stage's job, or waits again. */
const sandboxWatchJob = (deps: EnqueueDeps): JobHandler<StagePayload> =>
  defineJobHandler(sandboxWatchJobType, { run: (job) => finishWithSuccessor(deps, job) })

/** Runs a stage. Only its end is stored, once, under the lease: a worker that dies earlier leaves only its spend. */
async function runStage(deps: StageJobDeps, job: Job<StagePayload>): Promise<void> {
  const { db, step = () => {} } = deps
  step('stage.claimed')
  const task = await findTaskInProgress(db, job.payload)
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

/** End of an attempt, without the warnings of the earlier stages. */
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
  const cached = await findCachedResult(deps, task, digest)
  if (cached) return { kind: 'passed', digest, outcome: cached.result, seconds: cached.seconds, isReused: true }
  try {
    const ending = await executeStage(deps, task, state, { digest, signal })
    return ending.kind === 'rejected' && (await isDiskFull(deps.folder)) ? deferForDisk(deps) : ending
  } catch (error) {
    signal.throwIfAborted()
    return toEnding(deps, task, error)
  }
}

/** Finds a cached result whose files still exist. */
async function findCachedResult(deps: StageJobDeps, { workspaceId, stage }: TaskFacts, digest: string) {
  const cached = await rows.findCachedResult(deps.db, { workspaceId, stage, digest })
  const files = cached?.result.files
  if (!files || (await findContent(deps, files.digest))) return cached
  await rows.deleteCachedResult(deps.db, { workspaceId, stage, digest })
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
  const startedAtMs = performance.now()
  await using scratch = await openScratchFolder(deps.folder)
  await using context = await openStageContext(deps, task, scratch.path, signal)
  const result = await deps.stages[task.stage].run(state, context, signal)
  deps.step?.('stage.ran')
  if (result.kind === 'rejected') context.discardImages()
  if (result.kind !== 'done') return result
  const seconds = (performance.now() - startedAtMs) / 1000
  const outcome = toStorableOutcome(result.value)
  if (task.stage !== ASSEMBLY_STAGE) return { kind: 'passed', digest, outcome, seconds, isReused: false }
  const stored = await storeTask(deps, context.target, task.task)
  if (stored.kind === 'rejected') return stored
  return { kind: 'passed', digest, outcome: { ...outcome, files: stored.files }, seconds, isReused: false }
}

const TITLE_LENGTH_MAX = 200

const toStorable = (value: Json): Json => JSON.parse(storableJson(value))

/** Makes untrusted text storable in PostgreSQL. */
const toStorableOutcome = ({ output, evidence, concerns, title, difficulty }: StageDone): StageDone => ({
  output: toStorable(output),
  evidence: toStorable(evidence),
  concerns: concerns?.map(storableText),
  title: title === undefined ? undefined : storableText(title.slice(0, TITLE_LENGTH_MAX)),
  difficulty,
})

/** Wait before a retry, and before one that needs manual action first. */
const RETRY_MS = 60_000
const RETRY_LATE_MS = 3_600_000

const deferAttempt = (
  reason: Extract<StageEnding, { kind: 'deferred' }>['reason'],
  error: Error,
  retryAfterMs: number,
): StageAttempt => ({ kind: 'deferred', reason, detail: error.message, retryAfterMs })

/** Defers the task, because a failure while the disk is full is not the task's. */
const deferForDisk = ({ sandboxWaitMs }: StageJobDeps): StageAttempt =>
  deferAttempt('sandbox', new Error(DISK_FULL), sandboxWaitMs)

/** Converts an error. Failures that are not the task's fault defer it. Rethrown errors are retried and finally reject it. */
async function toEnding(deps: StageJobDeps, task: TaskFacts, error: unknown): Promise<StageAttempt> {
  if (error instanceof HistoryMissing) return { kind: 'rejected', reason: 'history_rewritten', detail: error.message }
  if (error instanceof CandidateBudgetSpent)
    return { kind: 'rejected', reason: `${error.role}_budget`, detail: error.message }
  if (error instanceof BatchBudgetSpent) return deferAttempt('budget', error, RETRY_LATE_MS)
  if (error instanceof StageCredentialMissing) return deferAttempt('credential', error, RETRY_LATE_MS)
  if (error instanceof ModelUnfit) return deferAttempt('config', error, RETRY_LATE_MS)
  if (error instanceof MirrorRefused)
    return deferAttempt('code_host', error, error.isPermanent ? RETRY_LATE_MS : RETRY_MS)
  if (await isCausedByDisk(error, deps.folder)) return deferForDisk(deps)
  if (error instanceof SandboxUnavailable) return diagnoseSandbox(deps, task, error)
  throw error
}

/** Defers the task if the provider fails its self-test. Otherwise rethrows the error, which the task caused. */
async function diagnoseSandbox(deps: StageJobDeps, task: TaskFacts, error: SandboxUnavailable): Promise<StageAttempt> {
  const provider = await findTaskProvider(deps, task)
  const failure = await provider?.selfTest().then(
    () => undefined,
    (reason: unknown) => (reason instanceof SandboxUnavailable ? reason : error),
  )
  if (provider && !failure) throw error
  return deferAttempt('sandbox', failure ?? error, deps.sandboxWaitMs)
}

/** End of an attempt at a stage. `digest` is the hash of its input. `concerns` are the warnings of the earlier stages. */
type StageEnding =
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
async function settleStage(tx: Db, deps: EnqueueDeps, task: TaskFacts, ending: StageEnding): Promise<void> {
  const isOpen = (await lockOpenBatch(tx, task.batch)) !== undefined
  await countSpend(tx, task)
  if (ending.kind === 'passed') await passStage(tx, deps, task, ending, isOpen)
  if (ending.kind === 'rejected') {
    const { reason, detail, evidence } = ending
    const storedEvidence = evidence === undefined ? undefined : JSON.parse(storableJson(evidence))
    await rows.rejectTask(tx, task, task.stage, { reason, detail: cutDetail(detail), evidence: storedEvidence })
  }
  if (ending.kind === 'deferred' && isOpen) await deferStage(tx, deps, task, ending)
  await updateBatchState(tx, deps, task.batch)
}

const DETAIL_LENGTH_MAX = 10_000
const cutDetail = (text: string): string => storableText(text.slice(0, DETAIL_LENGTH_MAX))

const DEFERRAL_MAX_MS = 3_600_000

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
  await rows.insertPassedStage(tx, task, key, isReused)
  if (!next) await supersedeOlderTasks(tx, task)
  if (next && isOpen) await enqueueStage(tx, deps, task, next)
}

const toTaskOrigin = ({ batch, task, repository, candidate }: TaskFacts) => ({
  batch,
  task,
  repository: repository.key,
  head: candidate.head,
})

/** Only the newest task of a pull request stays ready. Decided tasks are kept and reported as a warning. */
async function supersedeOlderTasks(tx: Db, task: TaskFacts): Promise<void> {
  const origin = toTaskOrigin(task)
  await rows.supersede(
    tx,
    origin,
    `${toRunId(origin.batch)}/${origin.task} was created later from the same pull request.`,
  )
  for (const other of await rows.listApprovedSiblings(tx, origin)) {
    const concern = `${toRunId(other.batch)}/${other.task} was created from the same pull request and is approved.`
    await rows.addConcern(tx, origin, concern)
  }
}

async function deferStage(
  tx: Db,
  deps: EnqueueDeps,
  task: TaskFacts,
  { reason, detail, retryAfterMs }: Extract<StageEnding, { kind: 'deferred' }>,
): Promise<void> {
  const until = new Date(Date.now() + Math.min(Math.max(0, retryAfterMs), DEFERRAL_MAX_MS))
  const deferral = { reason, detail: cutDetail(detail), until: until.toISOString() }
  await rows.deferTask(tx, task, task.stage, deferral)
  await enqueueStage(tx, deps, task, task.stage, until)
}

/** Enqueues a successor if the task is still in progress: a resume may have relied on this job. */
async function enqueueSuccessor(tx: Db, deps: EnqueueDeps, key: rows.TaskKey): Promise<void> {
  await lockOpenBatch(tx, key.batch)
  const task = await findTaskInProgress(tx, key)
  if (!task) return
  await rows.endDeferral(tx, task)
  await enqueueStage(tx, deps, task, task.stage)
  await updateBatchState(tx, deps, key.batch)
}

/** Ends a deferral before a retry. */
async function endWaiting(tx: Db, deps: EnqueueDeps, key: rows.TaskKey): Promise<void> {
  await lockOpenBatch(tx, key.batch)
  await rows.endDeferral(tx, key)
  await updateBatchState(tx, deps, key.batch)
}

type PipelineDeps = DiscoverDeps & StageJobDeps

/** Jobs of the pipeline that need no sandbox. */
export const pipelineJobs = (deps: PipelineDeps): JobHandler[] => [
  discoverJob(deps),
  stageJob(deps, undefined),
  sandboxWatchJob(deps),
  defineRecurringJob('batches.tend', 30, async () => {
    await countRemainingSpend(deps.db)
    await updateBatchStates(deps.db, deps)
  }),
]
