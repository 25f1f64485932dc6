import { z } from 'zod'
import { type RunValidatorDeps, runValidator, type ValidationOutcome } from '../batches/validate.ts'
import { findAvailableSandbox } from '../catalog/capabilities.ts'
import { DEFAULT_LIMITS } from '../harbor/limits.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { derivedId } from '../platform/ids.ts'
import {
  defineJobHandler,
  defineJobType,
  enqueueAll,
  type Job,
  type JobHandler,
  type JobType,
} from '../platform/jobs/jobs.ts'
import { readBenchmark, toNotFound } from './benchmarks.ts'
import type { Benchmark, BenchmarkTaskCalibration } from './schema.ts'
import * as rows from './sql.ts'

const CalibratePayload = z.strictObject({ benchmark: z.uuid(), task: z.string() })
type CalibratePayload = z.infer<typeof CalibratePayload>

/** Number of failed attempts after which a task counts as impossible to calibrate. */
const FAILURES_MAX = 3
/** Sandbox of a calibration if no worker has reported one yet. */
const DEFAULT_SANDBOX = 'local'

const toCalibrateJobType = (sandbox: string): JobType<CalibratePayload> =>
  defineJobType({
    type: `benchmark.calibrate.${sandbox}`,
    payload: CalibratePayload,
    failuresMax: FAILURES_MAX,
    memoryMb: DEFAULT_LIMITS.memoryMb,
  })

/** Enqueues the calibration of every task that has none. Idempotent. */
export function startCalibration(db: Db, ref: rows.BenchmarkRef): Promise<Benchmark> {
  return transact(db, async (tx) => {
    await rows.lockBenchmark(tx, ref)
    const row = await rows.findBenchmarkRow(tx, ref)
    if (!row) throw toNotFound(ref)
    const sandbox = row.calibrated_in ?? (await findAvailableSandbox(tx)) ?? DEFAULT_SANDBOX
    await rows.setCalibratedIn(tx, row.id, sandbox)
    const uncalibrated = (await rows.listTaskRows(tx, row.id)).filter(({ calibration }) => calibration === null)
    const jobs = uncalibrated.map(({ name }) => ({
      id: derivedId('benchmark task', row.id, name),
      payload: { benchmark: row.id, task: name },
      fairGroup: `${ref.workspaceId}/benchmark ${row.id}`,
    }))
    await enqueueAll(tx, toCalibrateJobType(sandbox), jobs)
    const { taskList, ...benchmark } = await readBenchmark(tx, ref)
    return benchmark
  })
}

/** Calibrates tasks in one sandbox. */
export const calibrateJob = (deps: RunValidatorDeps, sandbox: string): JobHandler<CalibratePayload> =>
  defineJobHandler(toCalibrateJobType(sandbox), {
    run: (job) => runCalibration(deps, sandbox, job),
    onGivenUp: (tx, payload, reason) => storeCalibration(tx, payload, { ...NO_CALIBRATION, error: reason }),
  })

const NO_CALIBRATION: BenchmarkTaskCalibration = { verifyMode: null, strength: null, winners: [], error: null }

async function runCalibration(deps: RunValidatorDeps, sandbox: string, job: Job<CalibratePayload>): Promise<void> {
  const row = await rows.findTaskRow(deps.db, job.payload.benchmark, job.payload.task)
  if (!row || row.calibration !== null) return
  const validation = await runValidator(deps, sandbox, row.digest, job.signal)
  if (validation.kind === 'unavailable') throw new Error(validation.detail)
  await job.finish((tx) => storeCalibration(tx, job.payload, toCalibration(validation)))
}

function toCalibration(validation: Exclude<ValidationOutcome, { kind: 'unavailable' }>): BenchmarkTaskCalibration {
  const { verifyMode, strength, winners } = validation.calibration
  return { verifyMode, strength, winners, error: validation.kind === 'rejected' ? validation.rejection.detail : null }
}

async function storeCalibration(
  tx: Db,
  { benchmark, task }: CalibratePayload,
  calibration: BenchmarkTaskCalibration,
): Promise<void> {
  await rows.setCalibration(tx, benchmark, task, JSON.stringify(calibration))
}
