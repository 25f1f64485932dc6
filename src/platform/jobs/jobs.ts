import type { ZodType } from 'zod'
import { type Db, transact } from '../db/db.ts'
import { newId } from '../ids.ts'
import {
  analyzeJobs,
  countWorkers,
  deleteLimit,
  deleteQueued,
  insertJobs,
  insertSelected,
  type JobSelect,
  type NewJob,
  notifyWorkers,
  requestCancel,
  upsertLimit,
} from './sql.ts'

/** A worker starts so many of these a second, and no more at once than its host's memory holds. */
type Weight = { memoryMb: number }

/** What enqueuing needs to know, so that whoever asks for a job need not import the code that runs it. */
export type JobKind<P> = {
  kind: string
  payload: ZodType<P>
  /** Higher goes first. Default 0; 100 for a recurring job, so that a long queue cannot starve it. */
  priority?: number
  /** Thrown errors until the job is given up. Default 5. */
  failuresMax?: number
  /** What a job of this kind takes of its host. Default nothing. */
  weight?: Weight
  /** The job exists once, by itself, and comes back this long after it is done. Its payload is `{}`. */
  everySeconds?: number
}

export type RunnableKind<P = unknown> = JobKind<P> & {
  run(job: Job<P>): Promise<void>
  /** In the transaction that gives the job up: the place to tell the row that waits for it. */
  failed?(tx: Db, payload: P, reason: string): Promise<void>
}

export type Job<P> = {
  id: string
  payload: P
  /** 1 for the first. Grows with each retry and each takeover from a dead worker. */
  attempt: number
  /** Aborts with `JobCanceled`, `LeaseLost` or `WorkerStopped` as its reason. */
  signal: AbortSignal
  /** Effects and the job's end happen together, or not at all, and only while the lease is held. Call it once, last. */
  finish<T>(work: (tx: Db) => Promise<T>): Promise<T>
  /** A write in the middle of the job. Throws `LeaseLost` when another worker has taken over. */
  write<T>(work: (tx: Db) => Promise<T>): Promise<T>
}

/** Any pino logger fits. */
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
  id?: string
  priority?: number
  runAt?: Date
  /** `outer/inner`: outer groups take turns, and the inner groups of one do, however many jobs each has. */
  fairGroup?: string
  /** The job runs while each of these has a free slot for it: see `setLimit`. */
  limitKeys?: readonly string[]
  weight?: Weight
}

const FAILURES_MAX = 5
const CHUNK = 5_000

/**
 * The same id twice is one job while the first is queued or running. A failed or canceled one is queued again, and a
 * cancel that has not taken effect yet is withdrawn. Inside `finish`, the job's own id means: once more, later.
 */
export async function enqueue<P>(tx: Db, kind: JobKind<P>, payload: P, options: EnqueueOptions = {}): Promise<string> {
  const id = options.id ?? newId()
  await enqueueAll(tx, kind, [{ ...options, id, payload }])
  return id
}

/** The same for many jobs: 100,000 take a few seconds. Gives their ids in the order of `jobs`. */
export async function enqueueAll<P>(
  tx: Db,
  kind: JobKind<P>,
  jobs: readonly (EnqueueOptions & { payload: P })[],
): Promise<string[]> {
  const settings = settingsOf(kind)
  const rows = jobs.map((job) => rowOf(kind, job))
  // One insert cannot meet the same row twice. Reversed, because of two the first counts.
  const distinct = [...new Map(rows.toReversed().map((row) => [row.id, row])).values()]
  await transact(tx, async (inner) => {
    for (let start = 0; start < distinct.length; start += CHUNK) {
      await insertJobs(inner, settings, distinct.slice(start, start + CHUNK))
    }
  })
  return rows.map((row) => row.id)
}

const settingsOf = ({ kind, failuresMax = FAILURES_MAX }: Pick<JobKind<unknown>, 'kind' | 'failuresMax'>) => ({
  kind,
  failuresMax,
})

/**
 * The same for jobs that the database makes up itself, a row each: id, payload, priority, fair_group (with its slash),
 * limit_keys (sorted), memory_mb and run_at. Answers how many there are.
 */
export const enqueueSelected = <P>(tx: Db, kind: JobKind<P>, select: JobSelect): Promise<number> =>
  insertSelected(tx, settingsOf(kind), select)

/** After many at once: plans that were kept from when the table was small read all of it. The server sees to it too, later. */
export const noteManyJobs = async (db: Db): Promise<void> => void (await analyzeJobs(db))

function rowOf(
  kind: Pick<JobKind<unknown>, 'priority' | 'weight'>,
  job: EnqueueOptions & { payload: unknown },
): NewJob {
  const { id = newId(), priority = kind.priority ?? 0, fairGroup = '/', weight = kind.weight, payload, runAt } = job
  return {
    id,
    payload,
    priority,
    fairGroup: fairGroup.includes('/') ? fairGroup : `${fairGroup}/`,
    limitKeys: [...new Set(job.limitKeys)].sort(),
    memoryMb: weight?.memoryMb ?? 0,
    ...(runAt && { runAt }),
  }
}

/** Where the job stands now: never to run, asked to stop, or not there to be canceled (done, failed or unknown). */
export async function cancel(tx: Db, id: string): Promise<'canceled' | 'requested' | 'gone'> {
  return (await cancelAll(tx, [id])).get(id) ?? 'gone'
}

/** The same for many jobs. Ids that are not in the answer are gone. */
export async function cancelAll(tx: Db, ids: readonly string[]): Promise<Map<string, 'canceled' | 'requested'>> {
  const rows = await requestCancel(tx, ids)
  return new Map(rows.map((row) => [row.id, row.state === 'canceled' ? 'canceled' : 'requested']))
}

/** As if they had never been asked for. Those that run go on, and those that ended stay as they are. */
export async function withdrawAll(tx: Db, ids: readonly string[]): Promise<void> {
  await deleteQueued(tx, ids)
}

/**
 * From the next claim on. 0 pauses the key, null lifts the limit; running jobs go on. The limit of a single word is that
 * of every key that begins with it and has none of its own: `model` is for `model 1` and `model 2`, for each.
 */
export async function setLimit(tx: Db, key: string, slots: number | null): Promise<void> {
  await (slots === null ? deleteLimit(tx, key) : upsertLimit(tx, key, slots))
  await notifyWorkers(tx, 'queued')
}

/** Workers of all processes that have shown themselves lately. */
export const countLiveWorkers = (db: Db, withinSeconds: number): Promise<number> => countWorkers(db, withinSeconds)
