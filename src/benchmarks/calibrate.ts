import { z } from 'zod'
import { type RunValidatorDeps, runValidator } from '../batches/validate.ts'
import type { ValidationOutcome } from '../batches/validator.ts'
import { findOffered } from '../catalog/offers.ts'
import { DEFAULT_LIMITS } from '../harbor/default-limits.ts'
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
import { readBenchmark } from './benchmarks.ts'
import type { Benchmark, TaskTrying } from './schema.ts'
import * as rows from './sql.ts'

const Payload = z.strictObject({ benchmark: z.uuid(), task: z.string() })
type Payload = z.infer<typeof Payload>

const FAILURES_MAX = 3
/** Where there is no worker yet, the first that comes has most likely this one. */
const USUAL = 'local'

const calibrateJobType = (sandbox: string): JobType<Payload> =>
  defineJobType({
    type: `benchmark.calibrate.${sandbox}`,
    payload: Payload,
    failuresMax: FAILURES_MAX,
    memoryMb: DEFAULT_LIMITS.memoryMb,
  })

/** Has every task tried that was not. Asked again, it goes on where it was. */
export function beginCalibration(db: Db, place: rows.Place): Promise<Benchmark> {
  return transact(db, async (tx) => {
    await rows.lockBenchmark(tx, place)
    const row = await rows.findBenchmarkRow(tx, place)
    if (!row) return readBenchmark(tx, place) // it was removed meanwhile: that says so
    const sandbox = row.calibrated_in ?? (await findOffered(tx)) ?? USUAL
    await rows.setCalibratedIn(tx, row.id, sandbox)
    const untried = (await rows.listTaskRows(tx, row.id)).filter(({ calibration }) => calibration === null)
    const jobs = untried.map(({ name }) => ({
      id: derivedId('benchmark task', row.id, name),
      payload: { benchmark: row.id, task: name },
    }))
    await enqueueAll(tx, calibrateJobType(sandbox), jobs)
    const { taskList, ...benchmark } = await readBenchmark(tx, place)
    return benchmark
  })
}

/** Tries tasks in one sandbox. */
export const calibrateJob = (tools: RunValidatorDeps, sandbox: string): JobHandler<Payload> =>
  defineJobHandler(calibrateJobType(sandbox), {
    run: (job) => runCalibration(tools, sandbox, job),
    onGivenUp: (tx, payload, reason) => store(tx, payload, { ...NOTHING, error: reason }),
  })

const NOTHING: TaskTrying = { verifyMode: null, strength: null, winners: [], error: null }

async function runCalibration(tools: RunValidatorDeps, sandbox: string, job: Job<Payload>): Promise<void> {
  const row = await rows.findTaskRow(tools.db, job.payload.benchmark, job.payload.task)
  if (!row || row.calibration !== null) return
  const validation = await runValidator(tools, sandbox, row.digest, job.signal)
  if (validation.kind === 'unavailable') throw new Error(validation.detail)
  await job.finish((tx) => store(tx, job.payload, tryingOf(validation)))
}

function tryingOf(validation: Exclude<ValidationOutcome, { kind: 'unavailable' }>): TaskTrying {
  const { verifyMode, strength, winners } = validation.calibration
  return { verifyMode, strength, winners, error: validation.kind === 'rejected' ? validation.rejection.detail : null }
}

const store = async (tx: Db, { benchmark, task }: Payload, trying: TaskTrying): Promise<void> =>
  void (await rows.setCalibration(tx, benchmark, task, JSON.stringify(trying)))
