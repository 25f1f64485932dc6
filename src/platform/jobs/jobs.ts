import { type ZodType, z } from 'zod'
import { type Db, transact } from '../db/db.ts'
import { newId } from '../ids.ts'
import {
  countWaitingJobs,
  deleteLimit,
  deleteQueuedJobs,
  insertJobs,
  insertSelected,
  type JobSelect,
  type NewJob,
  notifyWorkers,
  refreshJobStatistics,
  requestCancel,
  upsertLimit,
} from './sql.ts'
import { countLiveWorkers, listWorkerProcesses } from './workers/sql.ts'

/** Queries that other folders, which may not import sql.ts, use as they are. */
export { countLiveWorkers, countWaitingJobs, deleteQueuedJobs, refreshJobStatistics }

/** A job type as the queue knows it. Enqueuing needs no more, so callers need not import the handler. */
export type JobType<P> = {
  type: string
  payload: ZodType<P>
  /** Higher starts first. Default 0; 100 for a recurring job, so that a long queue cannot starve it. */
  priority?: number | undefined
  /** Number of thrown errors after which the job is given up. Default 5. */
  failuresMax?: number | undefined
  /** Memory that a job takes of its host. Default 0, which also exempts it from the host's start rate. */
  memoryMb?: number | undefined
  /** Makes the job recurring: it exists once and is queued again this long after it is done. Its payload is `{}`. */
  everySeconds?: number | undefined
}

type JobActions<P> = {
  run(job: Job<P>): Promise<void>
  /** Runs in the transaction that gives the job up. Updates the row that waits for the job. */
  onGivenUp?(tx: Db, payload: P, reason: string): Promise<void>
}

/** A job type together with the code that runs it. */
export type JobHandler<P = unknown> = JobType<P> & JobActions<P>

/** Declares a job type. Its payload is checked against the schema before each run. */
export const defineJobType = <P>(type: JobType<P>): JobType<P> => type

/** Declares the code that runs the jobs of a type, and what happens when one is given up. */
export const defineJobHandler = <P>(type: JobType<P>, actions: JobActions<P>): JobHandler<P> => ({
  ...type,
  ...actions,
})

/** Declares a job without payload that every worker registers and that runs once per interval in the whole system. */
export const defineRecurringJob = (
  type: string,
  everySeconds: number,
  run: (job: Job<object>) => Promise<void>,
): JobHandler<object> => ({ type, payload: z.strictObject({}), everySeconds, run })

export type Job<P> = {
  id: string
  payload: P
  /** 1 for the first attempt. Incremented by each retry and each takeover from a dead worker. */
  attempt: number
  /** Number of earlier attempts whose worker died. From the second on, a job that declares memory runs alone on its host. */
  deaths: number
  /** Time since the worker of the previous attempt was last known to be alive. 0 for the first attempt. */
  unattendedMs: number
  /** Aborts with a `JobCanceled`, `LeaseLost` or `WorkerStopped` as its reason. */
  signal: AbortSignal
  /** Commits `work` and the end of the job in one transaction, only while the lease is held. Call it once, last. */
  finish<T>(work: (tx: Db) => Promise<T>): Promise<T>
  /** Commits `work` in the middle of the job. Throws `LeaseLost` when another worker has taken over. */
  write<T>(work: (tx: Db) => Promise<T>): Promise<T>
}

/** The part of a pino logger that the queue uses. */
export type JobLog = Record<'info' | 'warn' | 'error', (fields: object, text: string) => void>

export class LeaseLost extends Error {
  override name = 'LeaseLost'
}

export class JobCanceled extends Error {
  override name = 'JobCanceled'
}

export class WorkerStopped extends Error {
  override name = 'WorkerStopped'
}

type EnqueueOptions = {
  id?: string | undefined
  priority?: number | undefined
  runAt?: Date | undefined
  /** `outer/inner`: outer groups take turns, and so do the inner groups of each, however many jobs they have. */
  fairGroup?: string | undefined
  /** The job runs only while every one of these keys has a free slot: see `setLimit`. */
  limitKeys?: readonly string[] | undefined
  memoryMb?: number | undefined
}

/**
 * Returns the options of a job for a workspace that is not a trial: workspaces take turns, and `limitWorkspaceJobs` limits
 * the running jobs of each.
 */
export const toWorkspaceJobOptions = (workspaceId: string) => ({
  fairGroup: `${workspaceId}/`,
  limitKeys: [`workspace ${workspaceId}`],
})

/** Limits each workspace to half of the slots of a worker, for jobs with the options of `toWorkspaceJobOptions`. */
export const limitWorkspaceJobs = (db: Db, workerSlots: number): Promise<void> =>
  setLimit(db, 'workspace', Math.max(1, Math.floor(workerSlots / 2)))

const FAILURES_MAX = 5
const JOBS_PER_INSERT = 5_000

/**
 * Enqueues a job. Idempotent by id while the first job is queued or running. A failed or canceled job is queued again,
 * and a cancel that has not taken effect yet is withdrawn. Inside `finish`, the job's own id runs it once more, later.
 */
export async function enqueue<P>(tx: Db, type: JobType<P>, payload: P, options: EnqueueOptions = {}): Promise<string> {
  const id = options.id ?? newId()
  await enqueueAll(tx, type, [{ ...options, id, payload }])
  return id
}

/** Enqueues many jobs (100,000 take a few seconds). Returns their ids in the order of `jobs`. */
export async function enqueueAll<P>(
  tx: Db,
  type: JobType<P>,
  jobs: readonly (EnqueueOptions & { payload: P })[],
): Promise<string[]> {
  const rows = jobs.map((job) => toNewJob(type, job))
  // An insert cannot contain the same id twice. Reversed, so that the first of two is inserted.
  const distinct = [...new Map(rows.toReversed().map((row) => [row.id, row])).values()]
  await transact(tx, async (inner) => {
    for (let start = 0; start < distinct.length; start += JOBS_PER_INSERT) {
      await insertJobs(inner, toTypeSettings(type), distinct.slice(start, start + JOBS_PER_INSERT))
    }
  })
  return rows.map((row) => row.id)
}

const toTypeSettings = <P>({ type, failuresMax = FAILURES_MAX }: JobType<P>) => ({ type, failuresMax })

function toNewJob<P>(type: JobType<P>, job: EnqueueOptions & { payload: P }): NewJob {
  const { id = newId(), priority = type.priority ?? 0, fairGroup = '/', memoryMb = type.memoryMb ?? 0 } = job
  return {
    id,
    payload: job.payload,
    priority,
    fairGroup: fairGroup.includes('/') ? fairGroup : `${fairGroup}/`,
    limitKeys: [...new Set(job.limitKeys)].sort(),
    memoryMb,
    runAt: job.runAt,
  }
}

/**
 * Enqueues one job per row of a query with the columns id, payload, priority, fair_group (with its slash), limit_keys
 * (sorted), memory_mb and run_at. Returns the number of jobs that are new.
 */
export const enqueueSelected = <P>(tx: Db, type: JobType<P>, select: JobSelect): Promise<number> =>
  insertSelected(tx, toTypeSettings(type), select)

/** Cancels jobs. Running ones are `requested` to stop. Jobs that are done, failed or unknown are not in the result. */
export async function cancelAll(tx: Db, ids: readonly string[]): Promise<Map<string, 'canceled' | 'requested'>> {
  const rows = await requestCancel(tx, ids)
  return new Map(rows.map((row) => [row.id, row.state === 'canceled' ? 'canceled' : 'requested']))
}

/**
 * Limits the running jobs of a key from the next claim on. 0 pauses the key, null removes the limit; running jobs
 * continue. A limit on a single word applies to each key that begins with it and has no limit of its own: `model`
 * limits `model 1` and `model 2` separately.
 */
export async function setLimit(tx: Db, key: string, slots: number | null): Promise<void> {
  await (slots === null ? deleteLimit(tx, key) : upsertLimit(tx, key, slots))
  await notifyWorkers(tx, 'queued')
}

type LiveWorker = { host: string; processId: number; startedAt: string; seenAt: string; jobs: number }

/** Lists worker processes whose last heartbeat is at most `withinSeconds` old, with the number of jobs that they run. */
export async function listLiveWorkers(db: Db, withinSeconds: number): Promise<LiveWorker[]> {
  const rows = await listWorkerProcesses(db, withinSeconds)
  return rows.map(({ startedAt, seenAt, ...rest }) => ({
    ...rest,
    startedAt: startedAt.toISOString(),
    seenAt: seenAt.toISOString(),
  }))
}
