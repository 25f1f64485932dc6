import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { unpackContent } from '../contents/contents.ts'
import { openFolderSource } from '../harbor/folder-source.ts'
import { DEFAULT_LIMITS } from '../harbor/limits.ts'
import { readTask } from '../harbor/read-task.ts'
import type { Task } from '../harbor/task.ts'
import type { Blobs, Digest } from '../platform/blobs/blob.ts'
import { DISK_FULL, isCausedByDisk, isDiskFull } from '../platform/data-folder.ts'
import type { Db } from '../platform/db/db.ts'
import { derivedId } from '../platform/ids.ts'
import {
  defineJobHandler,
  defineJobType,
  enqueueAll,
  type Job,
  type JobHandler,
  type JobType,
} from '../platform/jobs/jobs.ts'
import { openScratchFolder } from '../sandboxes/kernel/ownership.ts'
import { type SandboxProvider, SandboxUnavailable } from '../sandboxes/sandbox.ts'
import {
  completeBatch,
  findOpenBatch,
  lockOpenBatch,
  markRunning,
  markWaiting,
  readBatchWorkspace,
} from '../taskgen/pipeline/batch-state.ts'
import { type Rejection, type TaskCalibration, TaskEvidence } from '../taskgen/schema.ts'
import { type Calibration, calibrate } from '../trials/calibrate.ts'
import * as rows from './sql.ts'

/** `folder`: existing folder for the files of tasks during validation. */
export type RunValidatorDeps = { db: Db; blobs: Blobs; validate: Validator; folder: string }
type ValidateJobDeps = RunValidatorDeps & { sandboxWaitMs: number }

const ValidatePayload = z.strictObject({ batch: z.uuid(), task: z.string() })
type ValidatePayload = z.infer<typeof ValidatePayload>

/** Maximum number of failures with a working sandbox. The task is rejected after them. */
const FAILURES_MAX = 3

const toValidateJobType = (sandbox: string): JobType<ValidatePayload> =>
  defineJobType({
    type: `batch.validate.${sandbox}`,
    payload: ValidatePayload,
    failuresMax: FAILURES_MAX,
    memoryMb: DEFAULT_LIMITS.memoryMb,
  })

export const toValidationJobId = (batch: string, task: string): string => derivedId('batch task', batch, task)

type EnqueueValidationsInput = { sandbox: string; batch: string; tasks: readonly string[]; runAt?: Date | undefined }

/** Enqueues a validation for each task. Workspaces and their batches take turns. */
export async function enqueueValidations(tx: Db, { sandbox, batch, tasks, runAt }: EnqueueValidationsInput) {
  const fairGroup = `${await readBatchWorkspace(tx, batch)}/batch ${batch}`
  const jobs = tasks.map((task) => ({ payload: { batch, task }, id: toValidationJobId(batch, task), fairGroup, runAt }))
  return enqueueAll(tx, toValidateJobType(sandbox), jobs)
}

/** Validates tasks in one sandbox. */
export const validateJob = (deps: ValidateJobDeps, sandbox: string): JobHandler<ValidatePayload> =>
  defineJobHandler(toValidateJobType(sandbox), {
    run: (job) => runValidation(deps, sandbox, job),
    onGivenUp: async (tx, { batch, task }, reason) => {
      const row = await rows.findTaskRow(tx, batch, task)
      const evidence = TaskEvidence.parse(row?.evidence)
      const rejection = { reason: 'environment_failed', detail: reason }
      await rows.settleTask(tx, { batch, task }, { evidence, rejection, concerns: [] })
      await endIfDone(tx, batch)
    },
  })

async function runValidation(deps: ValidateJobDeps, sandbox: string, job: Job<ValidatePayload>): Promise<void> {
  const { batch, task } = job.payload
  const row = await rows.findTaskRow(deps.db, batch, task)
  if (row?.state !== 'validating' || !(await findOpenBatch(deps.db, batch))) return
  const validation = await runValidator(deps, sandbox, row.digest ?? '', job.signal)
  await job.finish(async (tx) => {
    if (validation.kind === 'unavailable') {
      const until = await markWaitingForSandbox(tx, batch, deps.sandboxWaitMs, validation.detail)
      await enqueueValidations(tx, { sandbox, batch, tasks: [task], runAt: until })
      return
    }
    await markRunning(tx, batch)
    await rows.settleTask(tx, { batch, task }, toVerdict(TaskEvidence.parse(row.evidence), validation))
    await endIfDone(tx, batch)
  })
}

type CompletedValidation = Exclude<ValidationOutcome, { kind: 'unavailable' }>

/** Returns the result of a task. The evidence of the safety check stays. */
function toVerdict(safetyEvidence: TaskEvidence, validation: CompletedValidation) {
  const evidence = { ...safetyEvidence, calibration: toDisplayedCalibration(validation.calibration) }
  const rejection = validation.kind === 'rejected' ? validation.rejection : null
  return { rejection, evidence, concerns: listConcerns(evidence) }
}

/** Selects the displayed part of the evidence. */
const toDisplayedCalibration = (calibration: TaskCalibration): TaskCalibration =>
  TaskEvidence.shape.calibration.unwrap().parse(calibration)

/** Runs the validator on an unpacked copy of the task. A failure while the disk is full does not reject the task. */
export async function runValidator(
  deps: RunValidatorDeps,
  sandbox: string,
  taskDigest: string,
  signal: AbortSignal,
): Promise<ValidationOutcome> {
  try {
    const outcome = await runOnCopy(deps, sandbox, taskDigest, signal)
    if (outcome.kind !== 'rejected' || !(await isDiskFull(deps.folder))) return outcome
  } catch (error) {
    signal.throwIfAborted()
    if (!(await isCausedByDisk(error, deps.folder))) throw error
  }
  return { kind: 'unavailable', detail: DISK_FULL }
}

async function runOnCopy(
  deps: RunValidatorDeps,
  sandbox: string,
  taskDigest: string,
  signal: AbortSignal,
): Promise<ValidationOutcome> {
  await using scratch = await openScratchFolder(deps.folder)
  const folder = join(scratch.path, 'task')
  const outputFolder = join(scratch.path, 'output')
  const { digest } = await unpackContent(deps, taskDigest, folder)
  await mkdir(outputFolder)
  const { task } = await readTask(await openFolderSource(folder), { includeIgnored: true })
  return await deps.validate({ sandbox, task, digest, folder, outputFolder }, signal)
}

/** Marks the batch as waiting for a sandbox and returns when to try again. */
export async function markWaitingForSandbox(tx: Db, batch: string, waitMs: number, detail?: string): Promise<Date> {
  const until = new Date(Date.now() + waitMs)
  await markWaiting(tx, batch, { reason: 'sandbox', detail, until: until.toISOString() })
  return until
}

/** Completes the batch after its last task. The lock makes concurrent settlements visible to each other. */
export async function endIfDone(tx: Db, batch: string): Promise<void> {
  const row = await lockOpenBatch(tx, batch)
  if (row?.step !== 'validate') return
  if ((await rows.listValidating(tx, batch)).length === 0) await completeBatch(tx, batch)
}

/** Lists warnings about an imported task that a reviewer should see before approving it. */
function listConcerns({ calibration }: TaskEvidence): string[] {
  if (calibration?.strength !== 'weak') return []
  const { winners, weakness } = calibration
  return [
    ...(winners.length > 0 ? [`Known cheats score: ${winners.join(', ')}.`] : []),
    ...(weakness ? [`The verifier is weak: ${weakness}`] : []),
  ]
}

/** Input of one validation. */
export type ValidationRequest = {
  sandbox: string
  task: Task
  digest: Digest
  /** Folders of the task's files and of the output. Both exist. */
  folder: string
  outputFolder: string
}

export type ValidationOutcome =
  | { kind: 'valid'; calibration: TaskCalibration }
  | { kind: 'rejected'; rejection: Rejection; calibration: TaskCalibration }
  /** The sandbox is unavailable; the task is not the cause. */
  | { kind: 'unavailable'; detail: string }

/**
 * Runs the reference solution, a no-op and the known cheats. Throws SandboxUnavailable if the sandbox passes its self-test
 * but fails with this task.
 */
export type Validator = (request: ValidationRequest, signal: AbortSignal) => Promise<ValidationOutcome>

export const createSandboxValidator =
  (findProvider: (sandbox: string) => SandboxProvider | undefined): Validator =>
  async ({ sandbox, ...request }, signal) => {
    const provider = findProvider(sandbox)
    if (!provider) return { kind: 'unavailable', detail: `This worker has no sandbox ${sandbox}.` }
    const unavailable = await provider.selfTest().then(() => undefined, toUnavailable)
    if (unavailable) return unavailable
    return toOutcome(sandbox, await calibrate(provider, { ...request, variables: {}, signal, onPhase: () => {} }))
  }

function toUnavailable(error: unknown): ValidationOutcome {
  if (error instanceof SandboxUnavailable) return { kind: 'unavailable', detail: error.message }
  throw error
}

function toOutcome(sandbox: string, result: Calibration): ValidationOutcome {
  const attempts = result.attempts.map(({ mode, oracle, nop }) => ({ verifyMode: mode, oracle, nop }))
  if (result.kind === 'fit') {
    const { mode, strength, weakness, winners, cheats } = result
    return { kind: 'valid', calibration: { sandbox, verifyMode: mode, strength, weakness, winners, attempts, cheats } }
  }
  const nopPasses = result.attempts.some(({ nop }) => nop?.state === 'passed')
  return {
    kind: 'rejected',
    rejection: { reason: nopPasses ? 'nop_passes' : 'oracle_fails', detail: result.reason },
    calibration: { sandbox, verifyMode: null, strength: null, winners: [], attempts, cheats: [] },
  }
}
