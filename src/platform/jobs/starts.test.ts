import { expect, test } from 'vitest'
import type { Database } from '../db/db.ts'
import { newId } from '../ids.ts'
import { claim } from './claim.ts'
import { enqueueAll } from './jobs.ts'
import { door, effectsDatabase, eventually, jobRows, note, noting, testWorker } from './test-support.ts'

test('in no second does a host start more than it may, whichever of its workers asks, and all that it may can be had', async () => {
  await using database = await effectsDatabase()
  await enqueueAll(
    database.db,
    note,
    Array.from({ length: 100 }, () => ({ payload: { text: '' }, weight: { memoryMb: 1 } })),
  )
  const wish = (host: string) => ({
    ...{ workerId: newId(), host, kinds: ['note'], slots: 2, leaseMs: 60_000, startsPerSecond: 3 },
  })
  /** What it started stays in the last second until the test says otherwise: no test is a race with the clock. */
  const ask = async (host: string) => {
    const { jobs, nextStartMs } = await claim(database.db, wish(host))
    await move(database, 3_600_000)
    return { jobs: jobs.length, waits: nextStartMs !== undefined && nextStartMs > 0 }
  }
  expect(await ask('here')).toEqual({ jobs: 2, waits: false })
  expect(await ask('here')).toEqual({ jobs: 1, waits: true })
  expect(await ask('here')).toEqual({ jobs: 0, waits: true })
  expect(await ask('there')).toEqual({ jobs: 2, waits: false })
  await move(database, -1_000)
  expect(await ask('here')).toEqual({ jobs: 2, waits: false })
  const { rows } = await database.pool.query(
    `select host, cardinality(started_at) as kept from host_starts order by host`,
  )
  expect(rows).toEqual([
    { host: 'here', kept: 2 },
    { host: 'there', kept: 2 },
  ])
})

/** To so long from now. */
const move = (database: Database, ms: number) =>
  database.pool.query(
    `update host_starts set started_at = array_fill(now() + $1 * interval '1 ms', array[cardinality(started_at)])`,
    [ms],
  )

test('a job that weighs nothing waits for no start', async () => {
  await using database = await effectsDatabase()
  await enqueueAll(
    database.db,
    note,
    Array.from({ length: 5 }, () => ({ payload: { text: '' } })),
  )
  const wish = { workerId: newId(), kinds: ['note'], slots: 5, leaseMs: 60_000, startsPerSecond: 1 }
  expect((await claim(database.db, wish)).jobs).toHaveLength(5)
})

test('a worker starts jobs that weigh something at its pace, and does not wait for a poll to go on', async () => {
  await using database = await effectsDatabase()
  const begun: number[] = []
  const kinds = [noting(async () => void begun.push(performance.now()))]
  const jobs = Array.from({ length: 7 }, () => ({ payload: { text: '' }, weight: { memoryMb: 1 } }))
  await enqueueAll(database.db, note, jobs)
  await using _worker = testWorker(database, { kinds, startsPerSecond: 3, pollMs: 600_000 })
  await eventually(() => begun.length).toBe(7)
  const [first = 0, , , fourth = 0, , , seventh = 0] = begun
  // Timers may be early by a millisecond, and claims are counted a little before jobs begin.
  expect(fourth - first).toBeGreaterThan(900)
  expect(seventh - fourth).toBeGreaterThan(900)
})

test('a worker takes no more than its host holds, and a big job gets its turn between small ones', async () => {
  await using database = await effectsDatabase()
  const taken = new Map<string, number>()
  const most = { memoryMb: 0 }
  const order: string[] = []
  const smallOnes = [door(), door(), door()]
  const kinds = [
    noting(async ({ id, payload: { text } }) => {
      taken.set(id, Number(text))
      most.memoryMb = Math.max(
        most.memoryMb,
        [...taken.values()].reduce((sum, each) => sum + each, 0),
      )
      order.push(text)
      if (text === '300') await smallOnes[order.length - 1]?.opened
      taken.delete(id)
    }),
  ]
  const job = (text: string, fairGroup: string) => ({
    payload: { text },
    fairGroup,
    weight: { memoryMb: Number(text) },
  })
  const small = Array.from({ length: 20 }, () => job('300', 'w/small'))
  await enqueueAll(database.db, note, small)
  await using _worker = testWorker(database, { kinds, memoryMb: 1_000 })
  await eventually(() => order.length).toBe(3)
  await enqueueAll(database.db, note, [job('900', 'w/big')])
  for (const each of smallOnes) each.open()
  await eventually(() => jobRows(database)).toEqual([])
  // Nothing passed it, although there was room for small ones before there was for it.
  expect(order.indexOf('900')).toBe(3)
  expect(most.memoryMb).toBe(900)
})
