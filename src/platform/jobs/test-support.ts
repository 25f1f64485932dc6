import { sql } from 'kysely'
import { expect } from 'vitest'
import { z } from 'zod'
import { type TestDatabase, testDatabase } from '../../../test/support/database.ts'
import { type Database, type Db, transact } from '../db/db.ts'
import { type Claim, claim } from './claim.ts'
import type { Job, JobKind, JobLog, RunnableKind } from './jobs.ts'
import { type ClaimedJob, reapExpired } from './sql.ts'
import { startWorker, type Worker, type WorkerOptions } from './worker.ts'

export const silent: JobLog = { info: () => {}, warn: () => {}, error: () => {} }

export const note: JobKind<{ text: string }> = { kind: 'note', payload: z.object({ text: z.string() }) }

/** The kind `note` with something to do. */
export const noting = (run: (job: Job<{ text: string }>) => Promise<void>): RunnableKind<{ text: string }> => ({
  ...note,
  run,
})

/** A database with a table for effects, which keeps every write: an effect that happened twice shows twice. */
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

/** All rows, the engine's own recurring job left out. */
export async function jobRows(database: Database): Promise<JobRow[]> {
  const { rows } = await database.pool.query<JobRow>(
    `select id, state, limit_keys, attempt, failures, crashes, error, worker_id,
      extract(epoch from run_at - now())::float8 as wait_seconds
    from jobs where kind <> 'jobs.sweep' order by created_at, id`,
  )
  return rows
}

type TestWorker = Worker & { [Symbol.asyncDispose](): Promise<void> }

export function testWorker(
  database: Database,
  options: Partial<WorkerOptions> & Pick<WorkerOptions, 'kinds'>,
): TestWorker {
  const worker = startWorker({ database, slots: 4, log: silent, leaseMs: 1_000, pollMs: 50, ...options })
  return { ...worker, [Symbol.asyncDispose]: () => worker.stop(0) }
}

/** Waits until it is so, and says what was there instead if it never is. */
export const eventually = <T>(read: () => T | Promise<T>) => expect.poll(read, { timeout: 20_000, interval: 10 })

/** What a claim got, and nothing else of it. */
export const claimJobs = async (db: Db, wish: Claim): Promise<ClaimedJob[]> => (await claim(db, wish)).jobs

/** What happens to the job of a worker that froze: its lease runs out and is taken back. */
export const stealLease = (database: Database, id: string): Promise<boolean> =>
  transact(database.db, async (tx) => {
    await sql`update jobs set leased_until = now() - interval '1 s' where id = ${id} and state = 'running'`.execute(tx)
    return reapExpired(tx)
  })

/** A door that is shut until someone opens it. */
export function door() {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: () => resolve() }
}
