import { findChosenHarness } from '../../catalog/harnesses.ts'
import { findModel } from '../../catalog/models.ts'
import { readGatewaySettings } from '../../gateway/call-bodies.ts'
import { explainTrial } from '../../gateway/explanation.ts'
import type { Ledger } from '../../gateway/ledger.ts'
import {
  type ModelConnection,
  ModelUnfit,
  openModelConnection,
  reopenModelConnection,
  resolveModelTerms,
} from '../../gateway/model-connection.ts'
import type { GrantTotals } from '../../gateway/totals.ts'
import { applyVerdict, decideVerdict, type ModelVerdict } from '../../gateway/verdict.ts'
import { TaskInvalid } from '../../harbor/task.ts'
import { HarnessUnfit } from '../../harnesses/harness.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import type { Db } from '../../platform/db/db.ts'
import { errorText } from '../../platform/errors.ts'
import { defineJobHandler, type Job, type JobHandler, LeaseLost, WorkerStopped } from '../../platform/jobs/jobs.ts'
import type { Tracer } from '../../platform/tracing.ts'
import { openScratchFolder } from '../../sandboxes/kernel/ownership.ts'
import { SandboxUnavailable, SandboxUnsupported } from '../../sandboxes/sandbox.ts'
import { type AgentHandover, AgentLost } from '../../trials/agent-handover.ts'
import { VariableMissing } from '../../trials/variables.ts'
import { recordStarted, toSharedBudgetId } from '../sql.ts'
import type { OnStep } from '../state.ts'
import { completeIfDone, pauseComparison } from '../state.ts'
import { storeArtifacts } from './artifacts.ts'
import { type CalibrationInput, CredentialGone, type TrialEngine, type VerifySettings } from './engine.ts'
import { admitTrial, explainCutOff, type TrialAdmission } from './queue/admission.ts'
import { calibrateOnce, parseVerifySettings } from './queue/calibration.ts'
import { deferWaiting, type TrialPayload, toTrialJobType } from './queue/queue.ts'
import { listAdoptableSandboxes, type RunningAgent, recordRunningAgent, takeRunningAgent } from './queue/sql.ts'
import {
  type AttemptEnding,
  AttemptSuperseded,
  type AttributedRecord,
  enqueueIfWaiting,
  hasRetriesLeft,
  settleAttempt,
} from './settle.ts'
import { toTrialGrantee } from './spend.ts'
import { startTrial, type TrialFacts } from './sql.ts'
import { traceAttempt } from './trace.ts'

/** A query that other folders, which may not import sql.ts, use as it is. */
export { listAdoptableSandboxes }

type TrialJobDeps = {
  db: Db
  blobs: Blobs
  engine: TrialEngine
  ledger: Ledger
  tracer: Tracer
  /** Returns the address of the gateway, or undefined if the worker does not know it. */
  gatewayUrl: () => string | undefined
  /** True if a stopping worker leaves its agents to others, because their gateway continues to run. Otherwise it ends them. */
  leavesAgents: boolean
  /** Existing folder for the output of running trials. */
  folder: string
  /** Delay before a failed trial is retried. */
  retryMs: number
  /** Maximum size of the trial artifacts of a workspace. */
  artifactBytesMax: number
  /** Called between every two writes. Tests stop the worker there. */
  step?: OnStep | undefined
}

/** Runs the trials of one sandbox. */
export const trialJob = (deps: TrialJobDeps, sandbox: string): JobHandler<TrialPayload> =>
  defineJobHandler(toTrialJobType(sandbox), {
    run: (job) => runTrialJob(deps, job),
    onGivenUp: async (tx, key, reason) => {
      const trial = await startTrial(tx, key)
      const ending: AttemptEnding = { kind: 'broken', class: 'operator_error', error: reason }
      if (trial && isRunnable(trial)) await settleAttempt(tx, trial, ending, { retryMs: 0 })
    },
  })

/** Runs one trial: start, admit, attempt, settle. Only the end is stored durably, once, under the lease. */
async function runTrialJob(deps: TrialJobDeps, job: Job<TrialPayload>): Promise<void> {
  const { db, step = () => {} } = deps
  step('trial.claimed')
  const trial = await startTrial(db, job.payload)
  if (!trial) return
  step('trial.started')
  if (!isRunnable(trial)) return endJob(job, trial)
  const admitted = await admitTrial(db, trial)
  if (admitted.kind !== 'start') return deferTrial(deps, job, trial, admitted)
  if (trial.isFirstOfComparison) await recordStarted(db, trial.comparison)
  step('trial.startRecorded')

  const startMs = Date.now()
  const ending = hasKilledWorkers(trial, job) ? WORKER_DEATHS_ENDING : await runAttempt(deps, trial, job)
  await traceAttempt(deps, trial, ending, startMs)
  step('trial.ran')
  try {
    const openTrials = await job.finish((tx) => settleAttempt(tx, trial, ending, { retryMs: deps.retryMs, step }))
    step('trial.finished')
    if (openTrials === 0) await completeIfDone(db, trial.comparison)
  } catch (error) {
    if (!(error instanceof AttemptSuperseded)) throw error
    await endJob(job, trial)
  }
}

/** The queue runs a trial alone after the second death of its worker, so no other trial can have caused the last two. */
const DEATHS_MAX = 4

/** Returns true if the worker died so often with this trial that the agent must be the cause. Calibration runs no agent. */
const hasKilledWorkers = (trial: TrialFacts, { deaths }: Job<TrialPayload>): boolean =>
  deaths >= DEATHS_MAX && trial.provider !== 'none' && parseVerifySettings(trial) !== undefined

const WORKER_DEATHS_ENDING: AttemptEnding = {
  kind: 'deadly',
  error: `The worker died ${DEATHS_MAX} times while this trial was running. The last two times, it was the only trial on the worker.`,
}

/** Ends the job of a trial that the budget does not admit: pauses the comparison or defers its waiting trials. */
const deferTrial = (
  { retryMs }: TrialJobDeps,
  job: Job<TrialPayload>,
  trial: TrialFacts,
  refused: Exclude<TrialAdmission, { kind: 'start' }>,
): Promise<void> =>
  endJob(job, trial, (tx) =>
    refused.kind === 'pause'
      ? pauseComparison(tx, trial.comparison, 'budget', refused.message)
      : deferWaiting(tx, trial, new Date(Date.now() + retryMs + refused.waiting * DEFER_PER_TRIAL_MS)),
  )

/** Additional delay per waiting trial, so that a long queue is not polled continuously. */
const DEFER_PER_TRIAL_MS = 10

/** Returns true if the trial may run. A trial that is already running was started by a worker that died. */
const isRunnable = ({ state, comparisonState }: TrialFacts): boolean =>
  state === 'running' || (state === 'queued' && comparisonState === 'running')

/**
 * Ends the job without changing the trial. If the comparison has been resumed meanwhile, the trial gets a new job, because
 * the resume saw this job and created none.
 */
async function endJob(job: Job<TrialPayload>, trial: TrialFacts, work?: (tx: Db) => Promise<void>): Promise<void> {
  await job.finish(async (tx) => {
    await work?.(tx)
    await enqueueIfWaiting(tx, trial)
  })
}

/** Runs one attempt in a fresh sandbox. Failures are returned as endings; only aborts and bugs are thrown. */
async function runAttempt(deps: TrialJobDeps, trial: TrialFacts, job: Job<TrialPayload>): Promise<AttemptEnding> {
  const { step = () => {} } = deps
  const { signal } = job
  await using scratch = await openScratchFolder(deps.folder)
  const outputFolder = scratch.path
  try {
    const request = toCalibrationInput(trial, outputFolder)
    const calibration = parseVerifySettings(trial) ?? (await calibrateOnce(deps, request, signal))
    step('trial.calibrated')
    if (calibration.kind === 'unfit') return { kind: 'unfit', error: calibration.reason }
    if (calibration.kind === 'broken') return { kind: 'broken', class: 'sandbox_error', error: calibration.error }
    return await runOrContinue(deps, trial, { ...request, verifySettings: calibration }, job)
  } catch (error) {
    signal.throwIfAborted()
    return toFailedEnding(error)
  }
}

type VerifiableTask = CalibrationInput & { verifySettings: VerifySettings }

/** Continues the agent that an earlier worker of the trial left in its sandbox. Otherwise starts the agent. */
async function runOrContinue(
  deps: TrialJobDeps,
  trial: TrialFacts,
  task: VerifiableTask,
  job: Job<TrialPayload>,
): Promise<AttemptEnding> {
  const { step = () => {} } = deps
  const takeAgent = (tx: Db) => takeRunningAgent(tx, trial, job.unattendedMs)
  const agent = trial.state === 'running' ? await job.write(takeAgent) : undefined
  const reopened = agent && (await openModel(deps, trial, agent.grantId))
  try {
    if (reopened) return await runWithModel(deps, trial, task, { job, model: reopened, agent })
  } catch (error) {
    if (!(error instanceof AgentLost)) throw error
  }
  const model = await openModel(deps, trial)
  step('trial.granted')
  return runWithModel(deps, trial, task, { job, model })
}

type ModelRun = {
  job: Job<TrialPayload>
  /** Undefined if the harness calls no model. */
  model: ModelConnection | undefined
  /** The agent that an earlier worker left. */
  agent?: RunningAgent | undefined
}

/**
 * Runs the trial and collects its artifacts. The grant is closed on every path, unless another worker continues with
 * it.
 */
async function runWithModel(
  deps: TrialJobDeps,
  trial: TrialFacts,
  task: VerifiableTask,
  { job, model, agent }: ModelRun,
): Promise<AttemptEnding> {
  const { signal } = job
  const { harness, harnessVersion, credentialId, configurationDigest, timeoutMultiplier } = trial
  const handover = model && toHandover(deps, trial, { job, grantId: model.grantId, agent })
  try {
    const setting = { harness, harnessVersion, credentialId, configurationDigest, timeoutMultiplier }
    const request = { ...task, ...setting, model: model?.trialModel, handover }
    const record = await deps.engine.run(request, signal)
    const totals = (await model?.close()) ?? null
    const verdict = totals && decideVerdict(record, totals, { isLastAttempt: !hasRetriesLeft(trial) })
    if (verdict?.kind === 'stopped') return toStoppedEnding(verdict, trial, totals)
    const result = verdict ? applyVerdict(record, verdict) : record
    const explanation = explainTrial(result, totals)
    return { kind: 'ran', totals, explanation, ...(await collectArtifacts(deps, trial, task, result)) }
  } finally {
    if (signal.aborted && handover?.isTakenOver(signal.reason)) await model?.leave()
    else await model?.close()
  }
}

/** Returns how the agent of a trial passes to the next worker. */
const toHandover = (
  { leavesAgents }: TrialJobDeps,
  trial: TrialFacts,
  { job, grantId, agent }: Pick<ModelRun, 'job' | 'agent'> & { grantId: string },
): AgentHandover => ({
  agent,
  async onAdoptable(sandboxId) {
    const storeAgent = (tx: Db) => recordRunningAgent(tx, trial, { sandboxId, grantId })
    await job.write(storeAgent).catch(() => {}) // The next worker starts the agent again if there is no row.
  },
  isTakenOver: (reason) => reason instanceof LeaseLost || (leavesAgents && reason instanceof WorkerStopped),
})

/** More calls than any legitimate trial makes. */
const CALLS_MAX = 5000
/** Expiry of a grant. It is normally closed with its trial; this covers dead workers. */
const GRANT_TTL_MS = 24 * 3600 * 1000

/**
 * Opens a grant for the trial, or an existing one again. Returns undefined if the harness calls no model, or if the
 * existing grant is closed. Throws ModelUnfit.
 */
async function openModel(
  deps: TrialJobDeps,
  trial: TrialFacts,
  grantId?: string,
): Promise<ModelConnection | undefined> {
  const { harness: id, harnessVersion: version } = trial
  const harness = await findChosenHarness(deps.db, trial.workspaceId, { id, version })
  if (!harness) throw new ModelUnfit(`The harness ${id} no longer exists.`)
  if (harness.protocols.length === 0) return undefined
  const gatewayUrl = deps.gatewayUrl()
  if (gatewayUrl === undefined)
    throw new ModelUnfit('The worker does not know the address of the gateway. Set ASSAY_GATEWAY_URL.')
  const model = await findModel(deps.db, trial.workspaceId, trial.catalogId, { alsoRemoved: true })
  if (!model) throw new ModelUnfit(`The model ${trial.catalogId} is no longer in the catalog.`)
  const { access, terms } = resolveModelTerms(model, trial.reasoningLevel, harness)
  const gateway = { ledger: deps.ledger, gatewayUrl }
  if (grantId !== undefined) return reopenModelConnection(gateway, access, grantId)
  const { recordBodies } = await readGatewaySettings(deps.db, trial.workspaceId)
  return openModelConnection(gateway, {
    access,
    terms: { ...terms, recordBodies },
    workspaceId: trial.workspaceId,
    grantee: toTrialGrantee(trial),
    credentialId: trial.credentialId,
    budgetMicros: trial.trialBudgetMicros,
    sharedBudget: toSharedBudgetId(trial.comparison),
    callsMax: CALLS_MAX,
    expiresAt: new Date(Date.now() + GRANT_TTL_MS),
  })
}

/** Stores the artifacts. If that fails, the result is kept and carries the error. */
async function collectArtifacts(
  deps: TrialJobDeps,
  trial: TrialFacts,
  { outputFolder }: VerifiableTask,
  record: AttributedRecord,
) {
  try {
    return { record, ...(await storeArtifacts(deps, outputFolder, trial)) }
  } catch (error) {
    const text = `Artifacts could not be stored: ${errorText(error)}`
    return { record: { ...record, error: record.error ?? text }, artifacts: [], blob: null }
  }
}

const toStoppedEnding = (
  { reason, message }: Extract<ModelVerdict, { kind: 'stopped' }>,
  { budgetMicros }: TrialFacts,
  totals: GrantTotals | null,
): AttemptEnding => ({
  kind: 'stopped',
  reason,
  message: reason === 'budget' ? explainCutOff({ budgetMicros, spentMicros: totals?.costMicros ?? 0 }) : message,
})

const toCalibrationInput = (trial: TrialFacts, outputFolder: string): CalibrationInput => ({
  task: { name: trial.taskName, digest: trial.digest },
  sandbox: trial.sandbox,
  workspaceId: trial.workspaceId,
  sandboxCredentialId: trial.sandboxCredentialId,
  outputFolder,
})

/** Errors that mean that the task, model or harness cannot run on this installation. */
const UNSUITABLE_ERRORS = [SandboxUnsupported, VariableMissing, TaskInvalid, ModelUnfit, HarnessUnfit]

/** Converts an error to an ending. Errors that only a person can fix pause the comparison. */
function toFailedEnding(error: unknown): AttemptEnding {
  if (error instanceof CredentialGone) return { kind: 'stopped', reason: 'credential', message: error.message }
  if (error instanceof SandboxUnavailable) return { kind: 'stopped', reason: 'sandbox', message: error.message }
  if (error instanceof Error && UNSUITABLE_ERRORS.some((type) => error instanceof type))
    return { kind: 'broken', class: 'operator_error', error: error.message }
  throw error
}
