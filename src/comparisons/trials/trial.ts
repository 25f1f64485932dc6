import type { GrantTotals } from '../../gateway/totals.ts'
import { applyVerdict, type Verdict, verdictOf } from '../../gateway/verdict.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import type { Db } from '../../platform/db/db.ts'
import { errorText } from '../../platform/error-text.ts'
import { defineJobHandler, type Job, type JobHandler } from '../../platform/jobs/jobs.ts'
import { SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { openScratch } from '../../trials/scratch.ts'
import { endIfDone, noteStarted, pause } from '../state.ts'
import type { OnStep } from '../steps.ts'
import { trialId } from '../trial-id.ts'
import { keepArtifacts } from './artifacts.ts'
import { calibrated, verifyingOf } from './calibrated/calibrated.ts'
import { CredentialGone, type Engine, type TaskOrder, type Verifying } from './engine.ts'
import { type TrialPayload, trialJobType } from './enqueue/enqueue.ts'
import { cutOffPause } from './forecast/admission.ts'
import { type Admission, admitTrial } from './forecast/forecast.ts'
import { type ModelTools, openModel } from './model.ts'
import { deferWaiting } from './queue.ts'
import { type Ending, hasRetries, type Ran, rejoin, Superseded, settle } from './settle.ts'
import { startTrial, type TrialFacts } from './sql.ts'

export type TrialTools = ModelTools & {
  blobs: Blobs
  engine: Engine
  /** A folder for what trials leave until it is kept. It exists. */
  folder: string
  /** How long a trial waits before it is tried once more. */
  retryMs: number
  /** Called between every two writes. Tests break it there. */
  step?: OnStep
}

/** Runs trials in one sandbox. */
export const trialJob = (tools: TrialTools, sandbox: string): JobHandler<TrialPayload> =>
  defineJobHandler(trialJobType(sandbox), {
    run: (job) => runTrialJob(tools, job),
    onGivenUp: async (tx, key, reason) => {
      const trial = await startTrial(tx, key)
      const ending: Ending = { kind: 'broken', class: 'operator_error', error: reason }
      if (trial && isRunning(trial)) await settle(tx, trial, ending, { retryMs: 0 })
    },
  })

/** The conductor: it alone knows the order. Only the end is written down for good, once, under the lease. */
async function runTrialJob(tools: TrialTools, job: Job<TrialPayload>): Promise<void> {
  const { db, step = () => {} } = tools
  step('trial.claimed')
  const trial = await startTrial(db, job.payload)
  if (!trial) return
  step('trial.started')
  if (!isRunning(trial)) return leave(job, trial)
  const admitted = await admitTrial(db, trial)
  if (admitted.kind !== 'start') return putOff(tools, job, trial, admitted)
  if (trial.isFirst) await noteStarted(db, trial.comparison)
  step('trial.noted')

  const ending = await attempt(tools, trial, job.signal)
  step('trial.ran')
  try {
    const open = await job.finish((tx) => settle(tx, trial, ending, { retryMs: tools.retryMs, step }))
    step('trial.finished')
    if (open === 0) await endIfDone(db, trial.comparison)
  } catch (error) {
    if (!(error instanceof Superseded)) throw error
    await leave(job, trial)
  }
}

/** Ends the job of a trial that the budget does not admit: the comparison pauses, or its waiting trials wait longer. */
const putOff = (
  { retryMs }: TrialTools,
  job: Job<TrialPayload>,
  trial: TrialFacts,
  refused: Exclude<Admission, { kind: 'start' }>,
): Promise<void> =>
  leave(job, trial, (tx) =>
    refused.kind === 'pause'
      ? pause(tx, trial.comparison, 'budget', refused.message)
      : deferWaiting(tx, trial, new Date(Date.now() + retryMs + refused.waiting * DEFERRED_MS)),
  )

/** Each trial that waits adds this much, so that a long queue is not looked at over and over. */
const DEFERRED_MS = 10

/** Also one that another worker began: it died, and this one takes over. */
const isRunning = ({ state, comparisonState }: TrialFacts): boolean =>
  state === 'running' || (state === 'queued' && comparisonState === 'running')

/**
 * Ends the job without touching the trial. If the comparison goes on by then, because someone resumed it, the trial waits
 * again: whoever resumed it saw this job and made no other.
 */
async function leave(job: Job<TrialPayload>, trial: TrialFacts, work?: (tx: Db) => Promise<void>): Promise<void> {
  await job.finish(async (tx) => {
    await work?.(tx)
    await rejoin(tx, trial)
  })
}

/** One attempt in a fresh sandbox. What goes wrong is an ending too; only an abort or a bug is thrown. */
async function attempt(tools: TrialTools, trial: TrialFacts, signal: AbortSignal): Promise<Ending> {
  const { step = () => {} } = tools
  await using scratch = await openScratch(tools.folder)
  const outputFolder = scratch.path
  try {
    const order = orderOf(trial, outputFolder)
    const verifying = verifyingOf(trial) ?? (await calibrated(tools, order, { signal }))
    step('trial.calibrated')
    if (verifying.kind === 'unfit') return { kind: 'unfit', error: verifying.reason }
    if (verifying.kind === 'broken') return { kind: 'broken', class: 'sandbox_error', error: verifying.error }
    return await worked(tools, trial, { ...order, verifying }, signal)
  } catch (error) {
    signal.throwIfAborted()
    return stopped(error)
  }
}

type Worked = TaskOrder & { verifying: Verifying }

/** Grant, sandbox, harness, verifier, cost: once each, in this order. The way to the model closes whatever happens. */
async function worked(tools: TrialTools, trial: TrialFacts, order: Worked, signal: AbortSignal): Promise<Ending> {
  const { step = () => {} } = tools
  const { harness, harnessVersion, credentialId } = trial
  const model = await openModel(tools, trial)
  step('trial.granted')
  try {
    const wanted = { ...order, harness, harnessVersion, credentialId }
    const record = await tools.engine.run(model ? { ...wanted, model: model.place } : wanted, { signal })
    const spent = (await model?.close()) ?? null
    const verdict = spent && verdictOf(record, spent, { isLast: !hasRetries(trial) })
    if (verdict?.kind === 'stopped') return stoppedBy(verdict, trial, spent)
    const result = verdict ? applyVerdict(record, verdict) : record
    return { kind: 'ran', spent, ...(await withArtifacts(tools, trial, order, result)) }
  } finally {
    await model?.close()
  }
}

/** A result is not given up for the sake of its artifacts. */
async function withArtifacts({ blobs }: TrialTools, trial: TrialFacts, { outputFolder }: Worked, record: Ran) {
  try {
    return { record, ...(await keepArtifacts(blobs, outputFolder, trialId(trial))) }
  } catch (error) {
    const text = `The artifacts could not be kept: ${errorText(error)}`
    return { record: { ...record, error: record.error ?? text }, artifacts: [], blob: null }
  }
}

const stoppedBy = (
  { reason, message }: Extract<Verdict, { kind: 'stopped' }>,
  { budgetMicros }: TrialFacts,
  spent: GrantTotals | null,
): Ending => ({
  kind: 'stopped',
  reason,
  message: reason === 'budget' ? cutOffPause({ budgetMicros, spentMicros: spent?.costMicros ?? 0 }) : message,
})

const orderOf = (trial: TrialFacts, outputFolder: string): TaskOrder => ({
  task: { name: trial.taskName, digest: trial.digest },
  sandbox: trial.sandbox,
  workspaceId: trial.workspaceId,
  sandboxCredentialId: trial.sandboxCredentialId,
  outputFolder,
})

/** The task asks for something that is not to be had here. */
const UNSUITABLE = ['SandboxUnsupported', 'VariableMissing', 'TaskInvalid', 'ModelUnfit', 'HarnessUnfit']

/** What no further attempt will mend by itself stops the comparison until someone does. */
function stopped(error: unknown): Ending {
  if (error instanceof CredentialGone) return { kind: 'stopped', reason: 'credential', message: error.message }
  if (error instanceof SandboxUnavailable) return { kind: 'stopped', reason: 'sandbox', message: error.message }
  if (error instanceof Error && UNSUITABLE.includes(error.name))
    return { kind: 'broken', class: 'operator_error', error: error.message }
  throw error
}
