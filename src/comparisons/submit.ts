import { z } from 'zod'
import { type BenchmarkDeps, type FreezeResult, freezeDataset } from '../benchmarks/benchmarks.ts'
import { isSandboxAvailable } from '../catalog/capabilities.ts'
import { contentStore } from '../contents/contents.ts'
import { computeDatasetDigest } from '../harbor/digest.ts'
import { RegistryUnavailable } from '../harbor/registries/registry.ts'
import { type Blobs, Digest } from '../platform/blobs/blob.ts'
import { runInParallel } from '../platform/concurrency.ts'
import { isDiskError } from '../platform/data-folder.ts'
import type { Db } from '../platform/db/db.ts'
import { derivedId } from '../platform/ids.ts'
import {
  defineJobHandler,
  defineJobType,
  enqueue,
  type Job,
  type JobHandler,
  toWorkspaceJobOptions,
} from '../platform/jobs/jobs.ts'
import { buildInitialCounts } from './counts.ts'
import { planTrials } from './plan.ts'
import type { SubmissionError } from './shapes/schema.ts'
import { buildTaskFilter } from './source.ts'
import * as rows from './sql.ts'
import type { OnStep } from './state.ts'
import { completeIfDone, failSubmission } from './state.ts'
import { analyzeAfterEnqueue, enqueueWaiting, resolveNeededCapability } from './trials/queue/queue.ts'
import { hasOpenTrials, insertPlan, listReusable } from './trials/sql.ts'

type SubmissionDeps = BenchmarkDeps & {
  /** Maximum time that a submission waits for a worker that provides the sandbox. */
  sandboxWaitMs: number
  /** Called between every two writes. Tests stop the worker there. */
  step?: OnStep | undefined
}

const Payload = z.strictObject({ key: z.number().int() })

/** Submissions have a higher priority than trials: a new comparison must not wait behind one that runs for days. */
const submitJobType = defineJobType({ type: 'comparison.submit', payload: Payload, priority: 10 })

/** Enqueues the submission of a comparison. There is at most one such job per comparison. */
export async function enqueueSubmission(tx: Db, key: number, runAt?: Date): Promise<string> {
  const comparison = await rows.findComparisonByKey(tx, key)
  const jobOptions = comparison && toWorkspaceJobOptions(comparison.workspace_id)
  return enqueue(tx, submitJobType, { key }, { id: derivedId('comparison', String(key)), runAt, ...jobOptions })
}

export const submitJob = (deps: SubmissionDeps): JobHandler<z.infer<typeof Payload>> =>
  defineJobHandler(submitJobType, {
    run: (job) => submit(deps, job),
    onGivenUp: (tx, { key }, reason) =>
      failSubmission(tx, key, toSubmissionError('internal_error', reason, { retryable: true })),
  })

/** Thrown when a submission cannot continue for an external reason. A person resumes it once the cause is removed. */
class SubmissionRefused extends Error {
  override name = 'SubmissionRefused'
  readonly error: SubmissionError

  constructor(error: SubmissionError) {
    super(error.message)
    this.error = error
  }
}

const toSubmissionError = (code: string, message: string, { retryable }: { retryable: boolean }): SubmissionError => ({
  code,
  message,
  retryable,
  at: new Date().toISOString(),
})

/** Freezes, plans and enqueues a comparison. Each step is stored with its effects, so that a retry continues after it. */
async function submit(deps: SubmissionDeps, job: Job<{ key: number }>): Promise<void> {
  const { key } = job.payload
  deps.step?.('submit.claimed')
  try {
    await freeze(deps, job)
    deps.step?.('submit.frozen')
    await storePlannedTrials(deps, job)
    deps.step?.('submit.planned')
    if (await isWaitingForSandbox(deps, key)) {
      // Waiting is not a failure: a job that throws is abandoned after a few attempts.
      await job.finish((tx) => enqueueSubmission(tx, key, new Date(Date.now() + SANDBOX_POLL_MS)))
      return
    }
    const enqueued = await job.finish((tx) => enqueueTrials(deps, tx, key))
    await analyzeAfterEnqueue(deps.db, enqueued)
  } catch (error) {
    const refusal = findRefusal(error)
    if (refusal) await job.finish((tx) => failSubmission(tx, key, refusal))
    else if (error instanceof ComparisonStopped) await job.finish(async () => {})
    else throw error
    return
  }
  deps.step?.('submit.enqueued')
  await completeIfDone(deps.db, key) // If every trial is reused, no trial job completes the comparison.
}

/** Thrown to roll back a submission whose comparison was canceled or paused meanwhile. */
class ComparisonStopped extends Error {}

const isOpen = (row: rows.ComparisonRow | undefined): row is rows.ComparisonRow =>
  row?.state === 'submitting' || row?.state === 'running'

async function freeze(deps: SubmissionDeps, job: Job<{ key: number }>): Promise<void> {
  const { key } = job.payload
  const row = await rows.findComparisonByKey(deps.db, key)
  if (!isOpen(row) || row.step !== 'freeze') return
  const source = await rows.readStoredSource(deps.db, key)
  const frozen =
    row.scope_kind === 'benchmark'
      ? toFrozenTasks(await freezeDataset(deps, row.workspace_id, source, job.signal), buildTaskFilter(source))
      : await freezeApprovedTasks(deps, source, job.signal)
  deps.step?.('submit.downloaded')
  await job.write(async (tx) => {
    const locked = await rows.lockComparison(tx, key)
    if (isOpen(locked) && locked.step === 'freeze') await rows.storeFrozen(tx, key, frozen)
  })
}

function toFrozenTasks(result: FreezeResult, isSelected: (name: string) => boolean): rows.FrozenTasks {
  switch (result.kind) {
    case 'frozen': {
      const selected = result.tasks.filter(({ name }) => isSelected(name))
      const tasks = selected.map(({ name, stored: { digest } }) => ({ name, digest, run_id: null, task_id: null }))
      const isWhole = selected.length === result.tasks.length
      const digest = isWhole ? result.digest : computeDatasetDigest(tasks.map((task) => task.digest))
      return { digest, tasks: tasks.sort((a, b) => (a.name < b.name ? -1 : 1)) }
    }
    case 'changed':
      throw new SubmissionRefused(
        toSubmissionError(
          'dataset_changed',
          `The dataset in the registry differs from the one that was checked. ${result.detail}`.trim(),
          { retryable: false },
        ),
      )
    case 'gone':
      throw new SubmissionRefused(
        toSubmissionError('dataset_gone', `The dataset is no longer in the registry. ${result.detail}`, {
          retryable: false,
        }),
      )
    case 'unauthorized':
      throw new SubmissionRefused(toSubmissionError('registry_access_refused', result.detail, { retryable: true }))
  }
}

/** Thrown when the files of an approved task are no longer stored. */
class TaskContentMissing extends Error {
  override name = 'TaskContentMissing'
}

const ApprovedSource = z.object({
  tasks: z.array(z.object({ runId: z.string(), taskId: z.string(), digest: Digest })),
})
type ApprovedTaskRef = z.infer<typeof ApprovedSource>['tasks'][number]

/** Maximum number of concurrent lookups. Each waits for the disk or the blob store. */
const LOOKUPS_MAX = 8

/** Freezes approved tasks of a repository with the digests they had when chosen. Their files are stored already. */
async function freezeApprovedTasks(
  deps: { db: Db; blobs: Blobs },
  source: unknown,
  signal: AbortSignal,
): Promise<rows.FrozenTasks> {
  const { tasks } = ApprovedSource.parse(source)
  const stored = await contentStore(deps).find(tasks.map(({ digest }) => digest))
  await runInParallel(tasks, LOOKUPS_MAX, signal, async ({ runId, taskId, digest }) => {
    const archive = stored.get(digest)?.archive
    if (archive === undefined || (await deps.blobs.find(archive)) === undefined)
      throw new TaskContentMissing(
        `The files of ${runId}/${taskId} are no longer stored. Import the same task again, then resume.`,
      )
  })
  const names = toUniqueNames(tasks)
  return {
    digest: computeDatasetDigest(tasks.map(({ digest }) => digest)),
    tasks: tasks.map(({ runId, taskId, digest }, index) => ({
      name: names[index] ?? taskId,
      digest,
      run_id: runId,
      task_id: taskId,
    })),
  }
}

/** Adds the batch to task ids that occur in several batches. */
function toUniqueNames(tasks: readonly ApprovedTaskRef[]): string[] {
  const tasksById = Map.groupBy(tasks, ({ taskId }) => taskId)
  return tasks.map(({ runId, taskId }) => (tasksById.get(taskId)?.length === 1 ? taskId : `${runId}/${taskId}`))
}

async function storePlannedTrials(deps: SubmissionDeps, job: Job<{ key: number }>): Promise<void> {
  const { key } = job.payload
  await job.write(async (tx) => {
    const row = await rows.lockComparison(tx, key)
    if (!isOpen(row) || row.step !== 'plan' || row.tasks === null) return
    const settings = (await rows.listSettingRows(tx, [key])).length
    const shape = { tasks: row.tasks, settings, attempts: row.attempts }
    const trials = planTrials(shape, row.skip_completed ? await listReusable(tx, key) : [])
    await insertPlan(tx, key, trials, buildInitialCounts(shape.settings, trials))
    deps.step?.('submit.inserted')
    await rows.advanceToEnqueue(tx, key)
  })
}

const SANDBOX_POLL_MS = 1_000

/** Returns true while no worker provides the sandbox but one may still start. Throws after the waiting time. */
async function isWaitingForSandbox(deps: SubmissionDeps, key: number): Promise<boolean> {
  const row = await rows.findComparisonByKey(deps.db, key)
  if (row?.state !== 'submitting' || (await canRunTrials(deps.db, row))) return false
  if (!(await hasOpenTrials(deps.db, key))) return false
  if (Date.now() - row.submit_asked_at.getTime() < deps.sandboxWaitMs) return true
  const message = `No worker provides the sandbox ${row.sandbox}. Start one, then resume.`
  throw new SubmissionRefused(toSubmissionError('sandbox_unavailable', message, { retryable: true }))
}

const canRunTrials = async (db: Db, row: rows.ComparisonRow): Promise<boolean> =>
  isSandboxAvailable(db, await resolveNeededCapability(db, toQueue(row)))

/** The columns that determine how trials are queued. */
const toQueue = (row: rows.ComparisonRow) => ({
  key: row.key,
  workspaceId: row.workspace_id,
  sandbox: row.sandbox,
  sandboxCredentialId: row.sandbox_credential_id,
  concurrency: row.concurrency,
})

/** Enqueues the trials, then marks the comparison as running. Lock order: jobs before the row. */
async function enqueueTrials(deps: SubmissionDeps, tx: Db, key: number): Promise<number> {
  const row = await rows.findComparisonByKey(tx, key)
  if (!isOpen(row) || row.step === 'done') return 0
  // The comparison was canceled and resumed meanwhile: submit again from the stored step.
  if (row.step !== 'enqueue') {
    await enqueueSubmission(tx, key)
    return 0
  }
  const enqueued = await enqueueWaiting(tx, toQueue(row))
  deps.step?.('submit.queued')
  if (!(await rows.startRunning(tx, key))) throw new ComparisonStopped()
  return enqueued
}

function findRefusal(error: unknown): SubmissionError | undefined {
  if (error instanceof SubmissionRefused) return error.error
  if (error instanceof TaskContentMissing)
    return toSubmissionError('task_content_gone', error.message, { retryable: false })
  if (isDiskError(error))
    return toSubmissionError(
      'disk_full',
      'The disk of the server is full or read-only. Free some space or make it writable, then resume.',
      { retryable: true },
    )
  if (error instanceof RegistryUnavailable)
    return toSubmissionError('registry_unavailable', error.message, { retryable: true })
  return undefined
}
