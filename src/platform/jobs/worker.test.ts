import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { newId } from '../ids.ts'
import { cancel, enqueue, JobCanceled, type RunnableKind, WorkerStopped } from './jobs.ts'
import {
  addEffect,
  door,
  effects,
  effectsDatabase,
  eventually,
  jobRows,
  note,
  noting,
  testWorker,
} from './test-support.ts'

const aborted = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener('abort', resolve))

test('a notice wakes an idle worker long before it would poll', async () => {
  await using database = await effectsDatabase()
  const seen: string[] = []
  await using _worker = testWorker(database, {
    kinds: [noting(async (job) => void seen.push(job.payload.text))],
    pollMs: 600_000,
    leaseMs: 600_000,
  })
  await enqueue(database.db, note, { text: 'first' })
  await eventually(() => seen).toEqual(['first'])
  // Until it is idle: the end of a job makes it look for the next.
  const ended = performance.now()
  await eventually(() => performance.now() - ended).toBeGreaterThan(500)
  await enqueue(database.db, note, { text: 'second' })
  await eventually(() => seen).toEqual(['first', 'second'])
})

test('a running job that is canceled is told at once, and its row says canceled', async () => {
  await using database = await effectsDatabase()
  const begun = door()
  const reasons: unknown[] = []
  const kinds = [
    noting(async (job) => {
      begun.open()
      await aborted(job.signal)
      reasons.push(job.signal.reason)
      job.signal.throwIfAborted()
    }),
  ]
  // A heartbeat would come after 150 s.
  await using _worker = testWorker(database, { kinds, leaseMs: 600_000 })
  const id = await enqueue(database.db, note, { text: 'long' })
  await begun.opened
  expect(await cancel(database.db, id)).toBe('requested')
  await eventually(() => jobRows(database)).toMatchObject([{ state: 'canceled', failures: 0 }])
  expect(reasons).toEqual([expect.any(JobCanceled)])
  expect(await cancel(database.db, id)).toBe('canceled')
})

test('a job that ends although it was canceled is done', async () => {
  await using database = await effectsDatabase()
  const begun = door()
  const kinds = [
    noting(async (job) => {
      begun.open()
      await aborted(job.signal)
      await job.finish((tx) => addEffect(tx, 'done'))
    }),
  ]
  await using _worker = testWorker(database, { kinds })
  const id = await enqueue(database.db, note, { text: 'quick' })
  await begun.opened
  expect(await cancel(database.db, id)).toBe('requested')
  await eventually(() => effects(database)).toEqual(['done'])
  expect(await jobRows(database)).toEqual([])
  expect(await cancel(database.db, id)).toBe('gone')
})

test('a cancel is withdrawn by enqueuing the job again, even when its handler has already been told', async () => {
  await using database = await effectsDatabase()
  const begun = door()
  const told = door()
  const goOn = door()
  const kinds = [
    noting(async (job) => {
      if (job.attempt > 1) return job.finish((tx) => addEffect(tx, job.payload.text))
      begun.open()
      await aborted(job.signal)
      told.open()
      await goOn.opened
      job.signal.throwIfAborted()
    }),
  ]
  await using _worker = testWorker(database, { kinds })
  const id = await enqueue(database.db, note, { text: 'before' })
  await begun.opened
  await cancel(database.db, id)
  await told.opened
  await enqueue(database.db, note, { text: 'after' }, { id })
  goOn.open()
  await eventually(() => effects(database)).toEqual(['after'])
})

test('stop waits for what runs and starts nothing more', async () => {
  await using database = await effectsDatabase()
  const begun = door()
  const goOn = door()
  const kinds = [
    noting(async (job) => {
      begun.open()
      await goOn.opened
      await job.finish((tx) => addEffect(tx, job.payload.text))
    }),
  ]
  await using worker = testWorker(database, { kinds, slots: 1 })
  await enqueue(database.db, note, { text: 'running' })
  await begun.opened
  const stopped = worker.stop(60_000)
  const waiting = await enqueue(database.db, note, { text: 'waiting' })
  goOn.open()
  await stopped
  expect(await effects(database)).toEqual(['running'])
  expect(await jobRows(database)).toMatchObject([{ id: waiting, state: 'queued', attempt: 0 }])
  expect((await database.pool.query('select * from workers')).rows).toEqual([])
})

test.each([
  ['listens', true],
  ['does not listen', false],
])('after the grace a job that %s is put back, which is no failure', async (_, listens) => {
  await using database = await effectsDatabase()
  const begun = door()
  const reasons: unknown[] = []
  const kinds = [
    noting(async (job) => {
      if (job.attempt > 1) return job.finish((tx) => addEffect(tx, 'second worker'))
      begun.open()
      await aborted(job.signal)
      reasons.push(job.signal.reason)
      if (!listens) await new Promise(() => {})
    }),
  ]
  await using first = testWorker(database, { kinds, leaseMs: 2_000 })
  await enqueue(database.db, note, { text: 'long' }, { runAt: new Date(Date.now() - 60_000) })
  await begun.opened
  await first.stop(20)
  expect(reasons).toEqual([expect.any(WorkerStopped)])
  const [row] = await jobRows(database)
  expect(row).toMatchObject({ state: 'queued', failures: 0, crashes: 0, worker_id: null })
  // It keeps its place in the queue.
  expect(row?.wait_seconds).toBeLessThan(-50)
  await using _second = testWorker(database, { kinds })
  await eventually(() => effects(database)).toEqual(['second worker'])
})

test('the job of a worker that was killed is taken over', async () => {
  await using database = await effectsDatabase()
  const script = new URL('./testing/endless-worker.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [script, database.url], { stdio: ['ignore', 'pipe', 'inherit'] })
  await enqueue(database.db, note, { text: 'orphan' })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect(await jobRows(database)).toMatchObject([{ state: 'running', attempt: 1 }])

  await using _worker = testWorker(database, {
    kinds: [noting((job) => job.finish((tx) => addEffect(tx, `attempt ${job.attempt}`)))],
  })
  await eventually(() => effects(database)).toEqual(['attempt 2'])
})

test('a recurring job exists once, runs by itself and comes back, with any number of workers', async () => {
  await using database = await effectsDatabase()
  let running = 0
  let most = 0
  const recurring: RunnableKind<object> = {
    kind: 'tick',
    payload: z.object({}),
    everySeconds: 1,
    async run(job) {
      running += 1
      most = Math.max(most, running)
      await job.finish((tx) => addEffect(tx, 'tick'))
      running -= 1
    },
  }
  await using _a = testWorker(database, { kinds: [recurring] })
  await using _b = testWorker(database, { kinds: [recurring] })
  await using _c = testWorker(database, { kinds: [recurring] })
  await eventually(() => effects(database)).toEqual(['tick', 'tick', 'tick'])
  expect(await jobRows(database)).toMatchObject([{ failures: 0, crashes: 0 }])
  expect(most).toBe(1)
})

test('a recurring job that fails keeps its error and is never given up', async () => {
  await using database = await effectsDatabase()
  const recurring: RunnableKind<object> = {
    kind: 'tick',
    payload: z.object({}),
    everySeconds: 60,
    failuresMax: 1,
    run: () => Promise.reject(new Error('no tick')),
  }
  await using _worker = testWorker(database, { kinds: [recurring] })
  await eventually(() => jobRows(database)).toMatchObject([{ state: 'queued', failures: 1, error: 'no tick' }])
  const [row] = await jobRows(database)
  expect(row?.wait_seconds).toBeGreaterThan(50)
})

test('the sweep removes what ended a week ago and workers that were not seen for an hour', async () => {
  await using database = await effectsDatabase()
  const [old, fresh] = [newId(), newId()]
  for (const id of [old, fresh]) {
    await enqueue(database.db, note, { text: 'ended' }, { id })
    await cancel(database.db, id)
  }
  await database.pool.query(`update jobs set finished_at = now() - interval '8 days' where id = $1`, [old])
  await database.pool.query(
    `insert into workers (id, host, process_id, seen_at) values ($1, 'gone', 1, now() - interval '2 hours')`,
    [newId()],
  )
  await using worker = testWorker(database, { kinds: [] })
  await eventually(() => jobRows(database)).toMatchObject([{ id: fresh }])
  const workers = () => database.pool.query('select id from workers').then(({ rows }) => rows)
  await eventually(workers).toEqual([{ id: worker.id }])
})
