import { expect, test } from 'vitest'
import {
  createGate,
  createNoteHandler,
  effectsDatabase,
  eventually,
  jobRows,
  noteJob,
  testWorker,
} from '../../../test/support/jobs/fixtures.ts'
import type { Database } from '../db/db.ts'
import { newId } from '../ids.ts'
import { enqueueAll } from './jobs.ts'
import { claim } from './worker.ts'

test('the workers of a host together use their start rate fully and never exceed it', async () => {
  await using database = await effectsDatabase()
  await enqueueAll(
    database.db,
    noteJob,
    Array.from({ length: 100 }, () => ({ payload: { text: '' }, memoryMb: 1 })),
  )
  const toOptions = (host: string) => ({
    workerId: newId(),
    host,
    types: ['note'],
    slots: 2,
    leaseMs: 60_000,
    startsPerSecond: 3,
  })
  /** Moves the starts into the future, so that they stay within the last second until the test moves them back. */
  const claimOn = async (host: string) => {
    const { jobs, nextStartMs } = await claim(database.db, toOptions(host))
    await moveStarts(database, 3_600_000)
    return { jobs: jobs.length, waits: nextStartMs !== undefined && nextStartMs > 0 }
  }
  expect(await claimOn('here')).toEqual({ jobs: 2, waits: false })
  expect(await claimOn('here')).toEqual({ jobs: 1, waits: true })
  expect(await claimOn('here')).toEqual({ jobs: 0, waits: true })
  expect(await claimOn('there')).toEqual({ jobs: 2, waits: false })
  await moveStarts(database, -1_000)
  expect(await claimOn('here')).toEqual({ jobs: 2, waits: false })
  const { rows } = await database.pool.query(
    `select host, cardinality(started_at) as starts from host_starts order by host`,
  )
  expect(rows).toEqual([
    { host: 'here', starts: 2 },
    { host: 'there', starts: 2 },
  ])
})

/** Moves all starts to this many milliseconds from now. */
const moveStarts = (database: Database, ms: number) =>
  database.pool.query(
    `update host_starts set started_at = array_fill(now() + $1 * interval '1 ms', array[cardinality(started_at)])`,
    [ms],
  )

test('a job without memory is exempt from the start rate', async () => {
  await using database = await effectsDatabase()
  await enqueueAll(
    database.db,
    noteJob,
    Array.from({ length: 5 }, () => ({ payload: { text: '' } })),
  )
  const options = { workerId: newId(), types: ['note'], slots: 5, leaseMs: 60_000, startsPerSecond: 1 }
  expect((await claim(database.db, options)).jobs).toHaveLength(5)
})

test('a worker starts jobs at the start rate without waiting for the next poll', async () => {
  await using database = await effectsDatabase()
  const begun: number[] = []
  const handlers = [createNoteHandler(async () => void begun.push(performance.now()))]
  const jobs = Array.from({ length: 7 }, () => ({ payload: { text: '' }, memoryMb: 1 }))
  await enqueueAll(database.db, noteJob, jobs)
  await using _worker = testWorker(database, { handlers, startsPerSecond: 3, pollMs: 600_000 })
  await eventually(() => begun.length).toBe(7)
  const [first = 0, , , fourth = 0, , , seventh = 0] = begun
  // Timers may fire a millisecond early, and starts are recorded slightly before jobs begin.
  expect(fourth - first).toBeGreaterThan(900)
  expect(seventh - fourth).toBeGreaterThan(900)
})

test('a worker never exceeds the memory of its host, and a big job is not overtaken by small ones', async () => {
  await using database = await effectsDatabase()
  const taken = new Map<string, number>()
  const most = { memoryMb: 0 }
  const order: string[] = []
  const smallOnes = [createGate(), createGate(), createGate()]
  const handlers = [
    createNoteHandler(async ({ id, payload: { text } }) => {
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
    memoryMb: Number(text),
  })
  const small = Array.from({ length: 20 }, () => job('300', 'w/small'))
  await enqueueAll(database.db, noteJob, small)
  await using _worker = testWorker(database, { handlers, memoryMb: 1_000 })
  await eventually(() => order.length).toBe(3)
  await enqueueAll(database.db, noteJob, [job('900', 'w/big')])
  for (const each of smallOnes) each.open()
  await eventually(() => jobRows(database)).toEqual([])
  // No small job overtook it, although there was memory for small ones first.
  expect(order.indexOf('900')).toBe(3)
  expect(most.memoryMb).toBe(900)
})

test('jobs of one workspace that never end leave slots and memory for the first job of another', async () => {
  await using database = await effectsDatabase()
  const gate = createGate()
  const begun: string[] = []
  const handlers = [
    createNoteHandler(async ({ payload: { text } }) => {
      begun.push(text)
      if (text !== 'honest') await gate.opened
    }),
  ]
  const toJobs = (count: number, text: string, memoryMb: number) =>
    Array.from({ length: count }, () => ({ payload: { text }, fairGroup: `${text}/`, memoryMb }))
  const options = { handlers, slots: 2, firstJobSlots: 2, memoryMb: 1_000, groupMemoryShare: async () => 0.6 }
  await using _worker = testWorker(database, options)
  await enqueueAll(database.db, noteJob, toJobs(3, 'small', 50))
  await eventually(() => begun).toEqual(['small', 'small'])
  await enqueueAll(database.db, noteJob, toJobs(2, 'huge', 512_000))
  await eventually(() => begun).toEqual(['small', 'small', 'huge'])
  await enqueueAll(database.db, noteJob, toJobs(2, 'honest', 300))
  await eventually(() => begun.filter((text) => text === 'honest')).toHaveLength(2)
  expect(begun).toHaveLength(5)
  gate.open()
  await eventually(() => jobRows(database)).toEqual([])
})
