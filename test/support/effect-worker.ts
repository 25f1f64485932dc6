import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { z } from 'zod'
import { connect } from '../../src/platform/db/db.ts'
import { defineJobHandler, defineJobType } from '../../src/platform/jobs/jobs.ts'
import { startWorker } from '../../src/platform/jobs/worker.ts'
import { createLog } from '../../src/platform/log.ts'

// A worker process whose jobs each insert one row, so that a job that took effect twice is visible.

const Payload = z.object({ n: z.number(), holdMs: z.number() })

export const effectJobType = defineJobType({ type: 'test.effect', payload: Payload })

export const EFFECTS_TABLE =
  'create table effects (n integer not null, at timestamptz not null default clock_timestamp())'

const effectHandler = defineJobHandler(effectJobType, {
  run: async (job) => {
    if (job.payload.holdMs > 0) await wait(job.payload.holdMs, undefined, { signal: job.signal })
    await job.finish((tx) => sql`insert into effects (n) values (${job.payload.n})`.execute(tx))
  },
})

if (import.meta.main) {
  const [, , url = '', slots = '10'] = process.argv
  const database = connect(url, { max: 10, onError: () => {} })
  startWorker({ database, handlers: [effectHandler], slots: Number(slots), log: createLog('error') })
  console.log('assay ready')
}
