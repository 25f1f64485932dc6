import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { unpackContent } from '../contents/contents.ts'
import { DEFAULT_LIMITS } from '../harbor/default-limits.ts'
import { inFolder } from '../harbor/folder-source.ts'
import { readTask } from '../harbor/read-task.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { derivedId } from '../platform/ids.ts'
import { enqueueAll, type Job, type JobKind, type RunnableKind } from '../platform/jobs/jobs.ts'
import { complete, findOpenBatch, goOn, lockOpenBatch, wait } from '../taskgen/pipeline/batch-state.ts'
import { Evidence, type TaskCalibration } from '../taskgen/schema.ts'
import { openScratch } from '../trials/scratch.ts'
import { concernsOf } from './concerns.ts'
import * as rows from './sql.ts'
import type { Validation, Validator } from './validator.ts'

/** `folder`: for tasks while they are tried. It exists. */
export type TryTools = { db: Db; blobs: Blobs; validate: Validator; folder: string }
export type ValidateTools = TryTools & { sandboxWaitMs: number }

const Payload = z.strictObject({ batch: z.uuid(), task: z.string() })
type Payload = z.infer<typeof Payload>

/** What breaks this often with a sandbox that works breaks because of the task. */
const FAILURES_MAX = 3

const validateKind = (sandbox: string): JobKind<Payload> => ({
  ...{ kind: `batch.validate.${sandbox}`, payload: Payload, failuresMax: FAILURES_MAX },
  weight: { memoryMb: DEFAULT_LIMITS.memoryMb },
})

export const validationJobId = (batch: string, task: string): string => derivedId('batch task', batch, task)

type Order = { sandbox: string; batch: string; tasks: readonly string[]; runAt?: Date }

export const enqueueValidations = (tx: Db, { sandbox, batch, tasks, runAt }: Order) =>
  enqueueAll(
    tx,
    validateKind(sandbox),
    tasks.map((task) => ({
      payload: { batch, task },
      id: validationJobId(batch, task),
      ...(runAt ? { runAt } : {}),
    })),
  )

/** Validates tasks in one sandbox. */
export const validateJob = (tools: ValidateTools, sandbox: string): RunnableKind<Payload> => ({
  ...validateKind(sandbox),
  run: (job) => runValidation(tools, sandbox, job),
  failed: async (tx, { batch, task }, reason) => {
    const row = await rows.findTaskRow(tx, batch, task)
    const evidence = Evidence.parse(row?.evidence)
    const rejection = { reason: 'environment_failed', detail: reason }
    await rows.settleTask(tx, { batch, task }, { evidence, rejection, concerns: [] })
    await endIfDone(tx, batch)
  },
})

async function runValidation(tools: ValidateTools, sandbox: string, job: Job<Payload>): Promise<void> {
  const { batch, task } = job.payload
  const row = await rows.findTaskRow(tools.db, batch, task)
  if (row?.state !== 'validating' || !(await findOpenBatch(tools.db, batch))) return
  const validation = await tried(tools, sandbox, row.digest ?? '', job.signal)
  await job.finish(async (tx) => {
    if (validation.kind === 'unavailable') {
      const until = await waitForSandbox(tx, batch, tools.sandboxWaitMs)
      return void (await enqueueValidations(tx, { sandbox, batch, tasks: [task], runAt: until }))
    }
    await goOn(tx, batch)
    await rows.settleTask(tx, { batch, task }, verdictOf(Evidence.parse(row.evidence), validation))
    await endIfDone(tx, batch)
  })
}

type Judged = Exclude<Validation, { kind: 'unavailable' }>

function verdictOf(before: Evidence, validation: Judged) {
  const evidence = { ...before, calibration: plain(validation.calibration) }
  const rejection = validation.kind === 'rejected' ? validation.rejection : null
  return { rejection, evidence, concerns: concernsOf(evidence) }
}

/** Only what is shown is kept. */
const plain = (calibration: TaskCalibration): TaskCalibration => Evidence.shape.calibration.unwrap().parse(calibration)

/** With the task unpacked, for as long as it takes. */
export async function tried(
  tools: TryTools,
  sandbox: string,
  taskDigest: string,
  signal: AbortSignal,
): Promise<Validation> {
  await using scratch = await openScratch(tools.folder)
  const folder = join(scratch.path, 'task')
  const outputFolder = join(scratch.path, 'output')
  const { digest } = await unpackContent(tools, taskDigest, folder)
  await mkdir(outputFolder)
  const { task } = await readTask(await inFolder(folder))
  return await tools.validate({ sandbox, task, digest, folder, outputFolder }, signal)
}

/** Nobody can run anything now. Answers when to look again. */
export async function waitForSandbox(tx: Db, batch: string, waitMs: number): Promise<Date> {
  const until = new Date(Date.now() + waitMs)
  await wait(tx, batch, { reason: 'sandbox', until: until.toISOString() })
  return until
}

/** Whoever settles the last task ends the batch: the lock lets one see what the other did. */
export async function endIfDone(tx: Db, batch: string): Promise<void> {
  const row = await lockOpenBatch(tx, batch)
  if (row?.step !== 'validate') return
  if ((await rows.listValidating(tx, batch)).length === 0) await complete(tx, batch)
}
