import { z } from 'zod'
import { connect, type Database } from '../src/platform/db/db.ts'
import { migrate } from '../src/platform/db/migrate.ts'
import { newId } from '../src/platform/ids.ts'
import { defineJobType, enqueueAll } from '../src/platform/jobs/jobs.ts'
import { endJob } from '../src/platform/jobs/sql.ts'
import { claim } from '../src/platform/jobs/worker.ts'
import { atMost, type BenchMeasurement, median, milliseconds, note, seconds, times } from './measure.ts'
import { withPostgres } from './postgres.ts'

const JOBS = 100_000
const GROUPS = 50
const CLAIMS = 300
const SLOTS = 8

const jobType = defineJobType({ type: 'bench.admission', payload: z.object({ n: z.number() }) })

export const admissionBench: BenchMeasurement = {
  name: 'Admission',
  about: `Jobs in ${GROUPS} comparisons of 5 workspaces, each with two limit keys and a weight, on a durable embedded PostgreSQL. ${CLAIMS} claims of ${SLOTS} jobs, one after another; claimed jobs end before the next claim.`,
  run: () =>
    withPostgres(async (url) => {
      const database = connect(url, { max: SLOTS, onError: () => {} })
      await migrate(database.db)
      await enqueueMany(database, JOBS / 10)
      const few = await claimTimes(database)
      const started = performance.now()
      await enqueueMany(database, JOBS)
      const enqueued = performance.now()
      const many = await claimTimes(database)
      await database.close()
      return [
        atMost(`enqueueing ${JOBS} jobs`, (enqueued - started) / 1000, 20, seconds),
        atMost(`claim with ${JOBS} queued, p95`, p95(many), 10, milliseconds),
        note('median', milliseconds(median(many))),
        atMost('ratio to a tenth of the jobs, medians', median(many) / median(few), 1.5, times),
      ]
    }),
}

const enqueueMany = (database: Database, count: number) =>
  enqueueAll(
    database.db,
    jobType,
    Array.from({ length: count }, (_, n) => ({
      payload: { n },
      fairGroup: `workspace ${n % 5}/comparison ${n % GROUPS}`,
      limitKeys: [`sandbox ${n % 5}`, `model ${n % 10}`],
      memoryMb: 2_048,
    })),
  )

async function claimTimes({ db }: Database): Promise<number[]> {
  const options = { workerId: newId(), types: [jobType.type], slots: SLOTS, leaseMs: 60_000 }
  const measured: number[] = []
  for (let i = 0; i < CLAIMS; i += 1) {
    const started = performance.now()
    const { jobs } = await claim(db, options)
    measured.push(performance.now() - started)
    if (jobs.length < SLOTS) throw new Error(`A claim gave ${jobs.length} jobs.`)
    await Promise.all(jobs.map((job) => endJob(db, job)))
  }
  return measured
}

const p95 = (numbers: number[]): number => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length * 0.95)] ?? 0
