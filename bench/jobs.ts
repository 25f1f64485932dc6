import type pg from 'pg'
import { connect } from '../src/platform/db/db.ts'
import { migrate } from '../src/platform/db/migrate.ts'
import { enqueue, enqueueAll } from '../src/platform/jobs/jobs.ts'
import { EFFECTS_TABLE, effectJobType } from '../test/support/effect-worker.ts'
import { type Program, startProgram } from '../test/support/program.ts'
import { atLeast, atMost, type BenchMeasurement, note, perSecond, seconds } from './measure.ts'
import { withPostgres } from './postgres.ts'

const JOBS = 10_000
const WORKER = new URL('../test/support/effect-worker.ts', import.meta.url).pathname

export const jobsBench: BenchMeasurement = {
  name: 'Jobs',
  about: `Two worker processes on a durable embedded PostgreSQL. Each of ${JOBS} jobs is enqueued, claimed, and ended in a transaction with one row as its effect.`,
  run: () =>
    withPostgres(async (url) => {
      const database = connect(url, { max: 5, onError: () => {} })
      await migrate(database.db)
      await database.pool.query(EFFECTS_TABLE)
      const workers = await Promise.all([startWorkerProcess(url), startWorkerProcess(url)])
      try {
        const started = performance.now()
        await enqueueAll(
          database.db,
          effectJobType,
          Array.from({ length: JOBS }, (_, n) => ({ payload: { n, holdMs: 0 } })),
        )
        const enqueued = performance.now()
        await untilEffects(database.pool, JOBS)
        const ended = performance.now()
        return [
          atLeast('enqueue and complete', JOBS / ((ended - started) / 1000), 500, perSecond),
          note('of that, enqueueing', seconds((enqueued - started) / 1000)),
          atMost('takeover after SIGKILL of the worker', await takeover(url, database.pool, workers), 15, seconds),
        ]
      } finally {
        await Promise.all(workers.map((worker) => worker.kill('SIGKILL')))
        await database.close()
      }
    }),
}

const startWorkerProcess = (url: string) => startProgram(WORKER, [url, '10'])

/** Kills a worker during a long job and measures the time until another worker has the job. */
async function takeover(url: string, pool: pg.Pool, workers: Program[]): Promise<number> {
  await Promise.all(workers.map((worker) => worker.kill('SIGTERM')))
  const victim = await startWorkerProcess(url)
  const database = connect(url, { max: 1, onError: () => {} })
  const id = await enqueue(database.db, effectJobType, { n: -1, holdMs: 3_600_000 })
  await database.close()
  const attempt = async (n: number) =>
    until(async () => (await pool.query('select from jobs where id = $1 and attempt = $2', [id, n])).rowCount === 1)
  await attempt(1)
  await victim.kill('SIGKILL')
  const killed = performance.now()
  workers.push(await startWorkerProcess(url))
  await attempt(2)
  return (performance.now() - killed) / 1000
}

const untilEffects = (pool: pg.Pool, count: number) =>
  until(async () => (await pool.query('select count(*)::int as n from effects')).rows[0].n >= count)

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20))
}
