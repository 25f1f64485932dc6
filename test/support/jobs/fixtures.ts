import { sql } from 'kysely'
import { expect } from 'vitest'
import { z } from 'zod'
import { type Database, type Db, transact } from '../../../src/platform/db/db.ts'
import {
  cancelAll,
  defineJobHandler,
  defineJobType,
  type Job,
  type JobHandler,
  type JobLog,
} from '../../../src/platform/jobs/jobs.ts'
import { type ClaimedJob, reapDead } from '../../../src/platform/jobs/sql.ts'
import {
  type ClaimOptions,
  claim,
  startWorker,
  type Worker,
  type WorkerOptions,
} from '../../../src/platform/jobs/worker.ts'
import { type TestDatabase, testDatabase } from '../database.ts'

export const silentLog: JobLog = { info: () => {}, warn: () => {}, error: () => {} }

export const noteJob = defineJobType({ type: 'note', payload: z.object({ text: z.string() }) })

/** Declares a handler for jobs of the type `note`. */
export const createNoteHandler = (run: (job: Job<{ text: string }>) => Promise<void>): JobHandler<{ text: string }> =>
  defineJobHandler(noteJob, { run })

/** Cancels one job. `gone`: it is done, failed or unknown. */
export const cancelJob = async (db: Db, id: string): Promise<'canceled' | 'requested' | 'gone'> =>
  (await cancelAll(db, [id])).get(id) ?? 'gone'

/** Creates a database with a table of effects. An effect that happened twice has two rows. */
export async function effectsDatabase(): Promise<TestDatabase> {
  const database = await testDatabase({ max: 20 })
  await database.pool.query('create table effects (text text not null)')
  return database
}

export async function addEffect(tx: Db, text: string): Promise<void> {
  await sql`insert into effects values (${text})`.execute(tx)
}

export async function effects(database: Database): Promise<string[]> {
  const { rows } = await database.pool.query<{ text: string }>('select text from effects order by text')
  return rows.map((row) => row.text)
}

export type JobRow = {
  id: string
  state: string
  limit_keys: string[]
  attempt: number
  failures: number
  crashes: number
  error: string | null
  worker_id: string | null
  wait_seconds: number
}

/** Lists all jobs except the queue's own recurring one. */
export async function jobRows(database: Database): Promise<JobRow[]> {
  const { rows } = await database.pool.query<JobRow>(
    `select id, state, limit_keys, attempt, failures, crashes, error, worker_id,
      extract(epoch from run_at - now())::float8 as wait_seconds
    from jobs where type <> 'jobs.sweep' order by created_at, id`,
  )
  return rows
}

type TestWorker = Worker & { [Symbol.asyncDispose](): Promise<void> }

export function testWorker(
  database: Database,
  options: Partial<WorkerOptions> & Pick<WorkerOptions, 'handlers'>,
): TestWorker {
  const worker = startWorker({ database, slots: 4, log: silentLog, leaseMs: 1_000, pollMs: 50, ...options })
  return { ...worker, [Symbol.asyncDispose]: () => worker.stop(0) }
}

/** Polls until the assertion holds, and reports the last value if it never does. */
export const eventually = <T>(read: () => T | Promise<T>) => expect.poll(read, { timeout: 20_000, interval: 10 })

export const claimJobs = async (db: Db, options: ClaimOptions): Promise<ClaimedJob[]> => (await claim(db, options)).jobs

/** Expires the lease of a job and requeues it, as for a worker that froze. */
export const stealLease = (database: Database, id: string): Promise<boolean> =>
  transact(database.db, async (tx) => {
    await sql`update jobs set leased_until = now() - interval '1 s' where id = ${id} and state = 'running'`.execute(tx)
    return reapDead(tx)
  })

/** Creates a gate that stays closed until a test opens it. */
export function createGate() {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: () => resolve() }
}
