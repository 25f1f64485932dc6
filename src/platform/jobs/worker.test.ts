import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import {
  addEffect,
  cancelJob,
  createGate,
  createNoteHandler,
  effects,
  effectsDatabase,
  eventually,
  jobRows,
  noteJob,
  testWorker,
} from '../../../test/support/jobs/fixtures.ts'
import { newId } from '../ids.ts'
import { defineRecurringJob, enqueue, JobCanceled, WorkerStopped } from './jobs.ts'

const aborted = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener('abort', resolve))

test('a notification wakes an idle worker before its next poll', async () => {
  await using database = await effectsDatabase()
  const seen: string[] = []
  await using _worker = testWorker(database, {
    handlers: [createNoteHandler(async (job) => void seen.push(job.payload.text))],
    pollMs: 600_000,
    leaseMs: 600_000,
  })
  await enqueue(database.db, noteJob, { text: 'first' })
  await eventually(() => seen).toEqual(['first'])
  // Wait until the worker is idle: the end of a job triggers the next claim.
  const ended = performance.now()
  await eventually(() => performance.now() - ended).toBeGreaterThan(500)
  await enqueue(database.db, noteJob, { text: 'second' })
  await eventually(() => seen).toEqual(['first', 'second'])
})

test('a worker that is not fit claims nothing, and claims again when it is', async () => {
  await using database = await effectsDatabase()
  let isFit = false
  const seen: string[] = []
  const noteAs = (name: string) => [createNoteHandler(async () => void seen.push(name))]
  await using _unfit = testWorker(database, { handlers: noteAs('unfit'), mayClaim: () => isFit })
  const other = testWorker(database, { handlers: noteAs('other'), slots: 1 })
  for (let n = 0; n < 20; n++) await enqueue(database.db, noteJob, { text: String(n) })
  await eventually(() => seen.length).toBe(20)
  expect(new Set(seen)).toEqual(new Set(['other']))
  await other.stop(1000)
  isFit = true
  await enqueue(database.db, noteJob, { text: 'last' })
  await eventually(() => seen.at(-1)).toBe('unfit')
})

test('canceling a running job aborts its signal at once and marks the row as canceled', async () => {
  await using database = await effectsDatabase()
  const begun = createGate()
  const reasons: unknown[] = []
  const handlers = [
    createNoteHandler(async (job) => {
      begun.open()
      await aborted(job.signal)
      reasons.push(job.signal.reason)
      job.signal.throwIfAborted()
    }),
  ]
  // The next heartbeat is 150 s away.
  await using _worker = testWorker(database, { handlers, leaseMs: 600_000 })
  const id = await enqueue(database.db, noteJob, { text: 'long' })
  await begun.opened
  expect(await cancelJob(database.db, id)).toBe('requested')
  await eventually(() => jobRows(database)).toMatchObject([{ state: 'canceled', failures: 0 }])
  expect(reasons).toEqual([expect.any(JobCanceled)])
  expect(await cancelJob(database.db, id)).toBe('canceled')
})

test('a job that finishes despite a cancel is done', async () => {
  await using database = await effectsDatabase()
  const begun = createGate()
  const handlers = [
    createNoteHandler(async (job) => {
      begun.open()
      await aborted(job.signal)
      await job.finish((tx) => addEffect(tx, 'done'))
    }),
  ]
  await using _worker = testWorker(database, { handlers })
  const id = await enqueue(database.db, noteJob, { text: 'quick' })
  await begun.opened
  expect(await cancelJob(database.db, id)).toBe('requested')
  await eventually(() => effects(database)).toEqual(['done'])
  expect(await jobRows(database)).toEqual([])
  expect(await cancelJob(database.db, id)).toBe('gone')
})

test('enqueuing a job again withdraws its cancel, even after its signal aborted', async () => {
  await using database = await effectsDatabase()
  const begun = createGate()
  const canceled = createGate()
  const goOn = createGate()
  const handlers = [
    createNoteHandler(async (job) => {
      if (job.attempt > 1) return job.finish((tx) => addEffect(tx, job.payload.text))
      begun.open()
      await aborted(job.signal)
      canceled.open()
      await goOn.opened
      job.signal.throwIfAborted()
    }),
  ]
  await using _worker = testWorker(database, { handlers })
  const id = await enqueue(database.db, noteJob, { text: 'before' })
  await begun.opened
  await cancelJob(database.db, id)
  await canceled.opened
  await enqueue(database.db, noteJob, { text: 'after' }, { id })
  goOn.open()
  await eventually(() => effects(database)).toEqual(['after'])
})

test('stop waits for running jobs and starts no more', async () => {
  await using database = await effectsDatabase()
  const begun = createGate()
  const goOn = createGate()
  const handlers = [
    createNoteHandler(async (job) => {
      begun.open()
      await goOn.opened
      await job.finish((tx) => addEffect(tx, job.payload.text))
    }),
  ]
  await using worker = testWorker(database, { handlers, slots: 1 })
  await enqueue(database.db, noteJob, { text: 'running' })
  await begun.opened
  const stopped = worker.stop(60_000)
  const waiting = await enqueue(database.db, noteJob, { text: 'waiting' })
  goOn.open()
  await stopped
  expect(await effects(database)).toEqual(['running'])
  expect(await jobRows(database)).toMatchObject([{ id: waiting, state: 'queued', attempt: 0 }])
  expect((await database.pool.query('select * from workers')).rows).toEqual([])
})

test.each([
  ['obeys its signal', true],
  ['ignores its signal', false],
])('after the grace period a job that %s is put back without counting a failure', async (_, listens) => {
  await using database = await effectsDatabase()
  const begun = createGate()
  const reasons: unknown[] = []
  const handlers = [
    createNoteHandler(async (job) => {
      if (job.attempt > 1) return job.finish((tx) => addEffect(tx, 'second worker'))
      begun.open()
      await aborted(job.signal)
      reasons.push(job.signal.reason)
      if (!listens) await new Promise(() => {})
    }),
  ]
  await using first = testWorker(database, { handlers, leaseMs: 2_000 })
  await enqueue(database.db, noteJob, { text: 'long' }, { runAt: new Date(Date.now() - 60_000) })
  await begun.opened
  await first.stop(20)
  expect(reasons).toEqual([expect.any(WorkerStopped)])
  const [row] = await jobRows(database)
  expect(row).toMatchObject({ state: 'queued', failures: 0, crashes: 0, worker_id: null })
  // The job keeps its position in the queue.
  expect(row?.wait_seconds).toBeLessThan(-50)
  await using _second = testWorker(database, { handlers })
  await eventually(() => effects(database)).toEqual(['second worker'])
})

test('another worker takes over the job of a killed worker', async () => {
  await using database = await effectsDatabase()
  const script = new URL('../../../test/support/jobs/endless-worker.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [script, database.url], { stdio: ['ignore', 'pipe', 'inherit'] })
  await enqueue(database.db, noteJob, { text: 'orphan' })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect(await jobRows(database)).toMatchObject([{ state: 'running', attempt: 1 }])

  await using _worker = testWorker(database, {
    handlers: [createNoteHandler((job) => job.finish((tx) => addEffect(tx, `attempt ${job.attempt}`)))],
  })
  await eventually(() => effects(database)).toEqual(['attempt 2'])
})

test('a recurring job exists once and runs once per interval, with any number of workers', async () => {
  await using database = await effectsDatabase()
  let running = 0
  let most = 0
  const recurring = defineRecurringJob('tick', 1, async (job) => {
    running += 1
    most = Math.max(most, running)
    await job.finish((tx) => addEffect(tx, 'tick'))
    running -= 1
  })
  await using _a = testWorker(database, { handlers: [recurring] })
  await using _b = testWorker(database, { handlers: [recurring] })
  await using _c = testWorker(database, { handlers: [recurring] })
  await eventually(() => effects(database)).toEqual(['tick', 'tick', 'tick'])
  expect(await jobRows(database)).toMatchObject([{ failures: 0, crashes: 0 }])
  expect(most).toBe(1)
})

test('a failing recurring job stores its error and is never given up', async () => {
  await using database = await effectsDatabase()
  const failing = defineRecurringJob('tick', 60, () => Promise.reject(new Error('no tick')))
  const recurring = { ...failing, failuresMax: 1 }
  await using _worker = testWorker(database, { handlers: [recurring] })
  await eventually(() => jobRows(database)).toMatchObject([{ state: 'queued', failures: 1, error: 'no tick' }])
  const [row] = await jobRows(database)
  expect(row?.wait_seconds).toBeGreaterThan(50)
})

test('deletes jobs that ended a week ago and workers not seen for an hour', async () => {
  await using database = await effectsDatabase()
  const [old, fresh] = [newId(), newId()]
  for (const id of [old, fresh]) {
    await enqueue(database.db, noteJob, { text: 'ended' }, { id })
    await cancelJob(database.db, id)
  }
  await database.pool.query(`update jobs set finished_at = now() - interval '8 days' where id = $1`, [old])
  await database.pool.query(
    `insert into workers (id, host, process_id, seen_at) values ($1, 'gone', 1, now() - interval '2 hours')`,
    [newId()],
  )
  await using worker = testWorker(database, { handlers: [] })
  await eventually(() => jobRows(database)).toMatchObject([{ id: fresh }])
  const workers = () => database.pool.query('select id from workers').then(({ rows }) => rows)
  await eventually(workers).toEqual([{ id: worker.id }])
})
