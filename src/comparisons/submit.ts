import { z } from 'zod'
import type { AddTools } from '../benchmarks/add.ts'
import { type Freezing, freezeDataset } from '../benchmarks/freeze.ts'
import { isOffered } from '../catalog/offers.ts'
import { RegistryUnavailable } from '../harbor/registries/registry.ts'
import type { Db } from '../platform/db/db.ts'
import { derivedId } from '../platform/ids.ts'
import { defineJobHandler, defineJobType, enqueue, type Job, type JobHandler } from '../platform/jobs/jobs.ts'
import { freezeChosen, TasksGone } from './chosen.ts'
import type { SubmissionError } from './shapes/schema.ts'
import * as rows from './sql.ts'
import { endIfDone, failSubmission } from './state.ts'
import type { OnStep } from './steps.ts'
import { enqueueWaiting, noteWaiting } from './trials/enqueue/enqueue.ts'
import { storePlan } from './trials/planned.ts'
import { hasOpenTrials } from './trials/tally.ts'

export type SubmitTools = AddTools & {
  /** How long a sandbox that nobody offers yet is waited for. */
  offerWaitMs: number
  /** Called between every two writes. Tests break it there. */
  step?: OnStep
}

const Payload = z.strictObject({ key: z.number().int() })

/** Starts before trials: a new comparison must not wait behind one that runs for days. */
const submitJobType = defineJobType({ type: 'comparison.submit', payload: Payload, priority: 10 })

export const enqueueSubmission = (tx: Db, key: number, runAt?: Date): Promise<string> =>
  enqueue(tx, submitJobType, { key }, { id: submissionJob(key), runAt })

const submissionJob = (key: number): string => derivedId('comparison', String(key))

export const submitJob = (tools: SubmitTools): JobHandler<z.infer<typeof Payload>> =>
  defineJobHandler(submitJobType, {
    run: (job) => submit(tools, job),
    onGivenUp: (tx, { key }, reason) => failSubmission(tx, key, errorOf('internal_error', reason, true)),
  })

/** The world outside does not let it. Someone resumes it when it does. */
class Refused extends Error {
  override name = 'Refused'
  readonly error: SubmissionError

  constructor(error: SubmissionError) {
    super(error.message)
    this.error = error
  }
}

const errorOf = (code: string, message: string, retryable: boolean): SubmissionError => ({
  ...{ code, message, retryable, at: new Date().toISOString() },
})

/** Freeze, plan, enqueue. Each step is written down with what it did, so that whoever comes next goes on after it. */
async function submit(tools: SubmitTools, job: Job<{ key: number }>): Promise<void> {
  const { key } = job.payload
  tools.step?.('submit.claimed')
  try {
    await freeze(tools, job)
    tools.step?.('submit.frozen')
    await planTrials(tools, job)
    tools.step?.('submit.planned')
    if (await isSandboxAwaited(tools, key)) {
      // Waiting is not a failure: a job that throws is given up after a few times, whatever it waited for.
      await job.finish((tx) => enqueueSubmission(tx, key, new Date(Date.now() + OFFER_POLL_MS)))
      return
    }
    const waiting = await job.finish((tx) => enqueueTrials(tools, tx, key))
    await noteWaiting(tools.db, waiting)
  } catch (error) {
    const refusal = refusalOf(error)
    if (!refusal) throw error
    await job.finish((tx) => failSubmission(tx, key, refusal))
    return
  }
  tools.step?.('submit.enqueued')
  await endIfDone(tools.db, key) // all of it may have been done before
}

const isOpen = (row: rows.ComparisonRow | undefined): row is rows.ComparisonRow =>
  row?.state === 'submitting' || row?.state === 'running'

async function freeze(tools: SubmitTools, job: Job<{ key: number }>): Promise<void> {
  const { key } = job.payload
  const row = await rows.findByKey(tools.db, key)
  if (!isOpen(row) || row.step !== 'freeze') return
  const source = await rows.findSource(tools.db, key)
  const frozen =
    row.scope_kind === 'benchmark'
      ? frozenIn(await freezeDataset(tools, row.workspace_id, source, job.signal))
      : await freezeChosen(tools, source, job.signal)
  tools.step?.('submit.downloaded')
  await job.write(async (tx) => {
    const now = await rows.lockComparison(tx, key)
    if (isOpen(now) && now.step === 'freeze') await rows.storeFrozen(tx, key, frozen)
  })
}

function frozenIn(freezing: Freezing): rows.Frozen {
  switch (freezing.kind) {
    case 'frozen': {
      const alone = { run_id: null, task_id: null }
      const tasks = freezing.tasks.map(({ name, stored }) => ({ name, digest: stored.digest, ...alone }))
      return { digest: freezing.digest, tasks: tasks.sort((a, b) => (a.name < b.name ? -1 : 1)) }
    }
    case 'changed':
      throw new Refused(
        errorOf('dataset_changed', `The registry has other bytes than were checked. ${freezing.detail}`.trim(), false),
      )
    case 'gone':
      throw new Refused(errorOf('dataset_gone', `The registry does not have it any more. ${freezing.detail}`, false))
    case 'unauthorized':
      throw new Refused(errorOf('registry_access_refused', freezing.detail, true))
  }
}

async function planTrials(tools: SubmitTools, job: Job<{ key: number }>): Promise<void> {
  const { key } = job.payload
  await job.write(async (tx) => {
    const row = await rows.lockComparison(tx, key)
    if (!isOpen(row) || row.step !== 'plan' || row.tasks === null) return
    const settings = (await rows.listSettingRows(tx, [key])).length
    const shape = { tasks: row.tasks, settings, attempts: row.attempts }
    await storePlan(tx, key, shape, row.skip_completed)
    tools.step?.('submit.inserted')
    await rows.setStep(tx, key, 'enqueue')
  })
}

const OFFER_POLL_MS = 1_000

/** A worker that is about to start may need a moment. Throws when none has come within the time to wait. */
async function isSandboxAwaited(tools: SubmitTools, key: number): Promise<boolean> {
  const row = await rows.findByKey(tools.db, key)
  if (row?.state !== 'submitting' || (await isOffered(tools.db, row.sandbox))) return false
  if (!(await hasOpenTrials(tools.db, key))) return false
  if (Date.now() - row.submit_asked_at.getTime() < tools.offerWaitMs) return true
  const message = `No worker offers the sandbox ${row.sandbox}. Start one, then resume.`
  throw new Refused(errorOf('sandbox_unavailable', message, true))
}

/** The jobs before the row: a trial that waits for the row may hold the place of its job. */
async function enqueueTrials(tools: SubmitTools, tx: Db, key: number): Promise<number> {
  const row = await rows.findByKey(tx, key)
  if (!isOpen(row) || row.step === 'done') return 0
  // It was canceled and resumed while we looked away: once more, from where it is.
  if (row.step !== 'enqueue') {
    await enqueueSubmission(tx, key)
    return 0
  }
  const waiting = await enqueueWaiting(tx, rows.queueOf(row))
  tools.step?.('submit.queued')
  await rows.startRunning(tx, key)
  return waiting
}

/** The last one is PostgreSQL's. */
const DISK = new Set(['ENOSPC', 'EDQUOT', 'EROFS', '53100'])

function refusalOf(error: unknown): SubmissionError | undefined {
  if (error instanceof Refused) return error.error
  if (error instanceof TasksGone) return errorOf('task_content_gone', error.message, false)
  if (isDiskFull(error)) return errorOf('disk_full', 'The disk of the server is full.', true)
  if (error instanceof RegistryUnavailable) return errorOf('registry_unavailable', error.message, true)
  return undefined
}

/** Also when the disk is only the cause of what was thrown. */
function isDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return ('code' in error && DISK.has(String(error.code))) || isDiskFull(error.cause)
}
