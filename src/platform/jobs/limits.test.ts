import { setTimeout as pause } from 'node:timers/promises'
import { type RawBuilder, sql } from 'kysely'
import { expect, test } from 'vitest'
import {
  claimJobs,
  createGate,
  createNoteHandler,
  effectsDatabase,
  eventually,
  jobRows,
  noteJob,
  testWorker,
} from '../../../test/support/jobs/fixtures.ts'
import type { Database, Db } from '../db/db.ts'
import { newId } from '../ids.ts'
import { admit } from './admission.ts'
import { enqueue, enqueueAll, setLimit } from './jobs.ts'
import { type Claimer, lockClaims, putBack, queueQuery, takeQuery } from './sql.ts'

test('a limit is exact over all workers: reached and never exceeded', async () => {
  await using database = await effectsDatabase()
  const running = new Map<string, number>()
  const most = new Map<string, number>()
  const handlers = [
    createNoteHandler(async ({ payload: { text: key } }) => {
      const now = (running.get(key) ?? 0) + 1
      running.set(key, now)
      most.set(key, Math.max(now, most.get(key) ?? 0))
      await pause(10)
      running.set(key, (running.get(key) ?? 0) - 1)
    }),
  ]
  const keys = ['a', 'b', 'c', 'd']
  for (const key of keys) await setLimit(database.db, key, 3)
  await enqueueAll(
    database.db,
    noteJob,
    Array.from({ length: 160 }, (_, i) => {
      const key = keys[i % 4] ?? ''
      return { payload: { text: key }, limitKeys: [key], priority: i % 3 }
    }),
  )
  await using _first = testWorker(database, { handlers, slots: 16 })
  await using _second = testWorker(database, { handlers, slots: 16 })
  await eventually(() => jobRows(database)).toEqual([])
  expect(Object.fromEntries(most)).toEqual({ a: 3, b: 3, c: 3, d: 3 })
})

test('racing claims for different job types never exceed the limit of a shared key', async () => {
  await using database = await effectsDatabase()
  await setLimit(database.db, 'key', 3)
  const types = ['one', 'two', 'three', 'four']
  for (const type of types) {
    const jobs = Array.from({ length: 10 }, () => ({ payload: { text: type }, limitKeys: ['key'] }))
    await enqueueAll(database.db, { ...noteJob, type }, jobs)
  }
  for (let round = 0; round < 10; round += 1) {
    const claims = types.map((type) =>
      claimJobs(database.db, { workerId: newId(), types: [type], slots: 16, leaseMs: 60_000 }),
    )
    const claimed = (await Promise.all(claims)).flat()
    expect(claimed).toHaveLength(3)
    await Promise.all(claimed.map((job) => putBack(database.db, job)))
  }
})

test('raising a limit starts jobs at once; lowering it starts none until enough have ended', async () => {
  await using database = await effectsDatabase()
  const doors: { open(): void }[] = []
  const markers: string[] = []
  const handlers = [
    createNoteHandler(async ({ id, payload }) => {
      if (payload.text === 'marker') return void markers.push(id)
      const own = createGate()
      doors.push(own)
      await own.opened
    }),
  ]
  const running = async () => {
    const rows = await jobRows(database)
    return rows.filter((row) => row.state === 'running' && row.limit_keys.includes('key')).length
  }
  /** Runs a job without a key, which proves that a claim took place. */
  const claimHappened = async () => {
    const id = await enqueue(database.db, noteJob, { text: 'marker' })
    await eventually(() => markers).toContain(id)
  }
  await setLimit(database.db, 'key', 2)
  await enqueueAll(
    database.db,
    noteJob,
    Array.from({ length: 10 }, () => ({ payload: { text: 'keyed' }, limitKeys: ['key'] })),
  )
  await using _worker = testWorker(database, { handlers, slots: 16, pollMs: 60_000 })
  await eventually(running).toBe(2)
  await claimHappened()
  expect(await running()).toBe(2)

  await setLimit(database.db, 'key', 4)
  await eventually(running).toBe(4)

  await setLimit(database.db, 'key', 1)
  for (const left of [3, 2, 1]) {
    doors.shift()?.open()
    await eventually(running).toBe(left)
    await claimHappened()
    expect(await running()).toBe(left)
  }
  doors.shift()?.open()
  await eventually(() => doors.length).toBe(1)
  expect(await running()).toBe(1)
})

test('a limit on a word applies to each key that begins with it and has no limit of its own', async () => {
  await using database = await effectsDatabase()
  await setLimit(database.db, 'model', 2)
  await setLimit(database.db, 'model own', 1)
  for (const key of ['model a', 'model b', 'model own', 'modelled', 'other model']) {
    await enqueueAll(
      database.db,
      noteJob,
      Array.from({ length: 5 }, () => ({ payload: { text: key }, limitKeys: [key] })),
    )
  }
  const claim = { workerId: newId(), types: ['note'], slots: 50, leaseMs: 60_000 }
  const texts = (await claimJobs(database.db, claim)).map(({ payload }) => noteJob.payload.parse(payload).text)
  const counts = Object.entries(Object.groupBy(texts, (text) => text)).map(([key, jobs]) => [key, jobs?.length])
  expect(Object.fromEntries(counts)).toEqual({
    'model a': 2,
    'model b': 2,
    'model own': 1,
    modelled: 5,
    'other model': 5,
  })
  await setLimit(database.db, 'model', null)
  expect(await claimJobs(database.db, claim)).toHaveLength(6)
})

test('50,000 jobs of an exhausted key neither block other jobs nor cause a table scan', async () => {
  await using database = await effectsDatabase()
  // Statistics of an empty table are the worst case for the planner.
  await database.pool.query('analyze jobs')
  await setLimit(database.db, 'full', 0)
  const full = { payload: { text: 'full' }, limitKeys: ['full', 'free'], priority: 5 }
  await enqueueAll(
    database.db,
    noteJob,
    Array.from({ length: 50_000 }, () => full),
  )
  const id = await enqueue(database.db, noteJob, { text: 'free' })
  const claim = { workerId: newId(), host: 'here', types: ['note'], slots: 16, leaseMs: 60_000 }
  for (const _ of ['stale statistics', 'fresh statistics']) {
    for (const plan of await claimPlans(database, claim)) {
      expect(plan.scans).not.toContain('Seq Scan')
      expect(plan.buffers).toBeLessThan(100)
    }
    await database.pool.query('analyze jobs')
  }
  expect(await claimJobs(database.db, claim)).toMatchObject([{ id }])
})

type PlanNode = { 'Node Type': string; 'Relation Name'?: string; 'Shared Hit Blocks': number; Plans?: PlanNode[] }
type WholePlan = PlanNode & { 'Shared Read Blocks': number }

/** Explains the two statements of a claim in a transaction that is rolled back. */
async function claimPlans(database: Database, claimer: Claimer): Promise<{ scans: string[]; buffers: number }[]> {
  const plans: WholePlan[] = []
  const undone = database.db.transaction().execute(async (tx) => {
    await lockClaims(tx)
    const [queue] = (await queueQuery(claimer).execute(tx)).rows
    if (!queue) throw new Error('no queue returned')
    const admission = admit(queue, { slots: claimer.slots, starts: 1, memoryMb: 1 })
    expect(admission.jobCounts.size).toBeGreaterThan(0)
    for (const query of [queueQuery(claimer), takeQuery(claimer, admission)]) plans.push(await explain(tx, query))
    throw new Error('undo the claim')
  })
  await expect(undone).rejects.toThrow('undo the claim')
  expect(plans).toHaveLength(2)
  return plans.map((plan) => ({
    scans: scansOfJobs(plan),
    buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
  }))
}

async function explain(tx: Db, query: RawBuilder<unknown>): Promise<WholePlan> {
  const { rows } = await sql<{ 'QUERY PLAN': { Plan: WholePlan }[] }>`
    explain (analyze, buffers, format json) ${query}`.execute(tx)
  const plan = rows[0]?.['QUERY PLAN'][0]?.Plan
  if (!plan) throw new Error('no plan returned')
  return plan
}

const scansOfJobs = (plan: PlanNode): string[] => [
  ...(plan['Relation Name'] === 'jobs' ? [plan['Node Type']] : []),
  ...(plan.Plans ?? []).flatMap(scansOfJobs),
]
