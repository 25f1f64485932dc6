import { expect, test } from 'vitest'
import { testDatabase } from '../../../test/support/database.ts'
import { claimJobs, noteJob, stealLease } from '../../../test/support/jobs/fixtures.ts'
import { seeded } from '../../../test/support/seeded.ts'
import type { Database } from '../db/db.ts'
import { newId } from '../ids.ts'
import { enqueue, enqueueAll, setLimit } from './jobs.ts'
import { type ClaimedJob, endJob, putBack } from './sql.ts'
import { upsertWorker } from './workers/sql.ts'

const claimer = () => ({ workerId: newId(), types: ['note'], slots: 1, leaseMs: 60_000 })

const enqueueMany = (database: Database, count: number, fairGroup: string) =>
  enqueueAll(
    database.db,
    noteJob,
    Array.from({ length: count }, () => ({ payload: { text: fairGroup }, fairGroup })),
  )

const readText = (job: ClaimedJob): unknown => noteJob.payload.parse(job.payload).text

/** Claims one job after another; each ends before the next claim, or keeps running. */
async function startJobs(database: Database, count: number, { end }: { end: boolean }): Promise<unknown[]> {
  const texts: unknown[] = []
  for (let i = 0; i < count; i += 1) {
    for (const job of await claimJobs(database.db, claimer())) {
      texts.push(readText(job))
      if (end) await endJob(database.db, job)
    }
  }
  return texts
}

test.each([
  ['keeps running', false],
  ['ends at once', true],
])('the smaller of two groups gets at least half of any n consecutive starts, if each job %s', async (_, end) => {
  await using database = await testDatabase()
  await enqueueMany(database, 2_000, 'w/big')
  await enqueueMany(database, 10, 'w/small')
  const small = (await startJobs(database, 20, { end })).map((text) => text === 'w/small')
  for (let from = 0; from < small.length; from += 1) {
    for (let to = from + 1; to <= small.length; to += 1) {
      const got = small.slice(from, to).filter(Boolean).length
      expect(got).toBeGreaterThanOrEqual(Math.floor((to - from) / 2))
    }
  }
})

test('workspaces take turns, and comparisons within each, across claims of several workers', async () => {
  await using database = await testDatabase()
  for (let i = 0; i < 5; i += 1) await enqueueMany(database, 100, `many/${i}`)
  await enqueueMany(database, 100, 'one/0')
  const started: unknown[] = []
  for (const slots of [3, 1, 7, 2, 4, 3]) {
    const jobs = await claimJobs(database.db, { ...claimer(), slots })
    started.push(...jobs.map(readText))
    await Promise.all(jobs.map((job) => endJob(database.db, job)))
  }
  const counts = Object.groupBy(started, (text) => String(text))
  expect(Object.fromEntries(Object.entries(counts).map(([group, texts]) => [group, texts?.length]))).toEqual({
    'many/0': 2,
    'many/1': 2,
    'many/2': 2,
    'many/3': 2,
    'many/4': 2,
    'one/0': 10,
  })
})

test('a new group gets every start until it has as many running jobs as the other', async () => {
  await using database = await testDatabase()
  await enqueueMany(database, 10, 'w/early')
  await startJobs(database, 3, { end: false })
  await enqueueMany(database, 10, 'w/late')
  expect(await startJobs(database, 5, { end: false })).toEqual(['w/late', 'w/late', 'w/late', 'w/early', 'w/late'])
})

test.each([1, 2, 3, 4, 5])(
  'limits on several keys are never exceeded when workers race, end and die (round %i)',
  async (seed) => {
    await using database = await testDatabase({ max: 20 })
    const random = seeded(seed)
    const limits: Record<string, number> = { sandbox: 3, 'model a': 2, 'model b': 2 }
    for (const [key, slots] of Object.entries(limits)) await setLimit(database.db, key, slots)
    const keySets = [['sandbox', 'model a'], ['model b', 'sandbox'], ['model a'], ['model a', 'model b'], []]
    await enqueueAll(
      database.db,
      noteJob,
      Array.from({ length: 60 }, (_, i) => ({
        payload: { text: String(i) },
        limitKeys: keySets[i % keySets.length] ?? [],
        fairGroup: `w/${i % 3}`,
      })),
    )
    const highest: Record<string, number> = {}
    const held: ClaimedJob[] = []
    for (let open = 60; open > 0; ) {
      const claims = [1, 2, 3, 4].map(() =>
        claimJobs(database.db, { ...claimer(), slots: 1 + Math.floor(random() * 4) }),
      )
      const ended = held
        .splice(0, Math.floor(random() * (held.length + 1)))
        .map((job) => endOrDie(database, job, random()))
      held.push(...(await Promise.all(claims)).flat())
      open -= (await Promise.all(ended)).filter(Boolean).length
      for (const [key, running] of Object.entries(await runningByKey(database))) {
        highest[key] = Math.max(highest[key] ?? 0, running)
      }
    }
    // How high they rise depends on the race.
    for (const [key, slots] of Object.entries(limits)) expect([slots, slots - 1], key).toContain(highest[key])
  },
)

/** Ends the job, puts it back or lets its worker die. Returns whether the job is done. */
async function endOrDie(database: Database, job: ClaimedJob, luck: number): Promise<boolean> {
  if (luck < 0.6) return endJob(database.db, job)
  if (luck < 0.8) await putBack(database.db, job)
  else await stealLease(database, job.id)
  return false
}

async function runningByKey(database: Database): Promise<Record<string, number>> {
  const { rows } = await database.pool.query<{ key: string; running: number }>(
    `select key, count(*)::int as running from jobs, jsonb_array_elements_text(limit_keys) as key
    where state = 'running' group by key`,
  )
  return Object.fromEntries(rows.map((row) => [row.key, row.running]))
}

test('a running job that is enqueued again with other keys keeps the slots it took', async () => {
  await using database = await testDatabase()
  await setLimit(database.db, 'old', 1)
  const id = await enqueue(database.db, noteJob, { text: '1' }, { limitKeys: ['old'], memoryMb: 10 })
  await claimJobs(database.db, claimer())
  await database.pool.query('update jobs set cancel_requested = true')
  await enqueue(database.db, noteJob, { text: '1' }, { id, limitKeys: ['new'] })
  await enqueue(database.db, noteJob, { text: '2' }, { limitKeys: ['old'] })
  expect(await runningByKey(database)).toEqual({ old: 1 })
  expect(await claimJobs(database.db, claimer())).toEqual([])
})

test('workers of a host share its memory, including dead ones; other hosts do not count', async () => {
  await using database = await testDatabase()
  const jobs = Array.from({ length: 10 }, () => ({ payload: { text: '' }, memoryMb: 400 }))
  await enqueueAll(database.db, noteJob, jobs)
  const claimOn = async (host: string) => {
    const worker = { id: newId(), host, processId: 1 }
    await upsertWorker(database.db, worker)
    return claimJobs(database.db, { ...claimer(), workerId: worker.id, host, slots: 8, memoryMb: 1_000 })
  }
  const first = await claimOn('here')
  expect(first).toHaveLength(2)
  expect(await claimOn('here')).toEqual([])
  expect(await claimOn('there')).toHaveLength(2)
  const [dead] = first
  if (dead) await stealLease(database, dead.id)
  expect(await claimOn('here')).toHaveLength(1)
})

test('empty and path-like names are valid groups and keys', async () => {
  await using database = await testDatabase()
  const names = ['', '/', '//', 'a', 'a/', "a'/b", '__proto__', '../x', 'ü/☃']
  for (const name of names) {
    await enqueue(database.db, noteJob, { text: name }, { fairGroup: name, limitKeys: name === '' ? [] : [name, name] })
  }
  for (const name of names.slice(1)) await setLimit(database.db, name, 1)
  const claimed = await claimJobs(database.db, { ...claimer(), slots: 20 })
  expect(claimed.map(readText).toSorted()).toEqual(names.toSorted())
})
