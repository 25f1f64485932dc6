import { expect, test } from 'vitest'
import { z } from 'zod'
import { testDatabase } from '../../../test/support/database.ts'
import { drain } from '../../../test/support/jobs/drain.ts'
import {
  addEffect,
  cancelJob,
  createNoteHandler,
  effects,
  effectsDatabase,
  jobRows,
  noteJob,
} from '../../../test/support/jobs/fixtures.ts'
import { transact } from '../db/db.ts'
import { newId } from '../ids.ts'
import { cancelAll, enqueue, enqueueAll, setLimit } from './jobs.ts'

test('a job exists only if the transaction that enqueued it commits', async () => {
  await using database = await testDatabase()
  const undone = transact(database.db, async (tx) => {
    await enqueue(tx, noteJob, { text: 'never' })
    throw new Error('undo')
  })
  await expect(undone).rejects.toThrow('undo')
  expect(await jobRows(database)).toEqual([])
})

test('deletes the row of a completed job', async () => {
  await using database = await testDatabase()
  const seen: string[] = []
  await enqueue(database.db, noteJob, { text: 'hello' })
  await drain(database, [createNoteHandler(async (job) => void seen.push(`${job.payload.text} ${job.attempt}`))])
  expect(seen).toEqual(['hello 1'])
  expect(await jobRows(database)).toEqual([])
})

test('enqueues the same id once, also within one call', async () => {
  await using database = await testDatabase()
  const id = newId()
  expect(await enqueue(database.db, noteJob, { text: 'first' }, { id })).toBe(id)
  await enqueue(database.db, noteJob, { text: 'second' }, { id })
  const jobs = [
    { id, payload: { text: 'third' } },
    { id, payload: { text: 'fourth' } },
  ]
  expect(await enqueueAll(database.db, noteJob, jobs)).toEqual([id, id])
  const seen: string[] = []
  await drain(database, [createNoteHandler(async (job) => void seen.push(job.payload.text))])
  expect(seen).toEqual(['first'])
})

test('starts higher priorities first, then older jobs', async () => {
  await using database = await testDatabase()
  const texts = { low: -1, first: 0, second: 0, high: 5 }
  for (const [text, priority] of Object.entries(texts)) await enqueue(database.db, noteJob, { text }, { priority })
  const seen: string[] = []
  await drain(database, [createNoteHandler(async (job) => void seen.push(job.payload.text))])
  expect(seen).toEqual(['high', 'first', 'second', 'low'])
})

test('a job does not start before its runAt', async () => {
  await using database = await testDatabase()
  await enqueue(database.db, noteJob, { text: 'later' }, { runAt: new Date(Date.now() + 60_000), priority: 9 })
  await enqueue(database.db, noteJob, { text: 'now' })
  const seen: string[] = []
  const handlers = [createNoteHandler(async (job) => void seen.push(job.payload.text))]
  await drain(database, handlers)
  expect(seen).toEqual(['now'])
  await database.pool.query('update jobs set run_at = now()')
  await drain(database, handlers)
  expect(seen).toEqual(['now', 'later'])
})

test('stores the error and retries with growing delays until the job is given up', async () => {
  await using database = await testDatabase()
  await enqueue(database.db, noteJob, { text: 'broken' })
  const givenUp: string[] = []
  const broken = {
    ...createNoteHandler(async (job) => {
      throw new Error(`try ${job.attempt}\0${'x'.repeat(3_000)}`)
    }),
    onGivenUp: async (_: unknown, payload: { text: string }, reason: string) =>
      void givenUp.push(`${payload.text}: ${reason.slice(0, 5)}`),
  }
  const waits: number[] = []
  for (let i = 1; i <= 4; i += 1) {
    await drain(database, [broken])
    const [row] = await jobRows(database)
    expect(row).toMatchObject({ state: 'queued', failures: i, attempt: i })
    waits.push(row?.wait_seconds ?? 0)
    await database.pool.query('update jobs set run_at = now()')
  }
  for (const [i, seconds] of waits.entries()) {
    expect(seconds).toBeGreaterThan(2 ** i * 0.75 - 0.5)
    expect(seconds).toBeLessThan(2 ** i * 1.25)
  }
  expect(givenUp).toEqual([])
  await drain(database, [broken])
  const [row] = await jobRows(database)
  expect(row).toMatchObject({ state: 'failed', failures: 5 })
  expect(row?.error).toBe(`try 5${'x'.repeat(1_995)}`)
  expect(givenUp).toEqual(['broken: try 5'])
})

test('a job that succeeds on its third attempt is done', async () => {
  await using database = await effectsDatabase()
  await enqueue(database.db, noteJob, { text: 'stubborn' })
  const flaky = createNoteHandler(async (job) => {
    if (job.attempt < 3) throw new Error('not yet')
    await job.finish((tx) => addEffect(tx, `try ${job.attempt}`))
  })
  for (let i = 0; i < 3; i += 1) {
    await drain(database, [flaky])
    await database.pool.query('update jobs set run_at = now()')
  }
  expect(await jobRows(database)).toEqual([])
  expect(await effects(database)).toEqual(['try 3'])
})

test('rolls back the writes of finish when it throws, and retries the job', async () => {
  await using database = await effectsDatabase()
  await enqueue(database.db, noteJob, { text: 'half' })
  const half = createNoteHandler((job) =>
    job.finish(async (tx) => {
      await addEffect(tx, 'half')
      throw new Error('power cut')
    }),
  )
  await drain(database, [half])
  expect(await effects(database)).toEqual([])
  expect(await jobRows(database)).toMatchObject([{ state: 'queued', failures: 1, error: 'power cut' }])
})

test('an error after finish does not requeue the job', async () => {
  await using database = await effectsDatabase()
  await enqueue(database.db, noteJob, { text: 'late' })
  const late = createNoteHandler(async (job) => {
    await job.finish((tx) => addEffect(tx, 'done'))
    throw new Error('too late')
  })
  await drain(database, [late])
  expect(await effects(database)).toEqual(['done'])
  expect(await jobRows(database)).toEqual([])
})

test('a job can enqueue itself again inside finish', async () => {
  await using database = await effectsDatabase()
  const id = await enqueue(database.db, noteJob, { text: '3' })
  const countdown = createNoteHandler((job) =>
    job.finish(async (tx) => {
      await addEffect(tx, job.payload.text)
      const next = Number(job.payload.text) - 1
      if (next > 0) await enqueue(tx, noteJob, { text: String(next) }, { id: job.id })
    }),
  )
  await drain(database, [countdown])
  expect(await effects(database)).toEqual(['1', '2', '3'])
  expect(await cancelJob(database.db, id)).toBe('gone')
})

test('gives up a job with an invalid payload at once; a job of an unknown type stays queued', async () => {
  await using database = await testDatabase()
  const older = { type: 'note', payload: z.object({ words: z.number() }) }
  await enqueue(database.db, older, { words: 3 })
  await enqueue(database.db, { type: 'newer', payload: z.object({}) }, {})
  await drain(database, [createNoteHandler(async () => {})])
  const rows = await jobRows(database)
  expect(rows).toMatchObject([
    { state: 'failed', attempt: 1 },
    { state: 'queued', attempt: 0 },
  ])
  expect(rows[0]?.error).toMatch(/Invalid payload for job type note.*text/s)
})

test('onGivenUp commits together with the failure; if it throws, the job is retried', async () => {
  await using database = await effectsDatabase()
  await enqueue(database.db, { ...noteJob, failuresMax: 1 }, { text: 'doomed' })
  let broken = true
  const doomed = {
    ...createNoteHandler(async () => {
      throw new Error('no')
    }),
    onGivenUp: async (tx: typeof database.db) => {
      await addEffect(tx, 'given up')
      if (broken) throw new Error('hook is broken')
    },
  }
  await drain(database, [doomed])
  expect(await effects(database)).toEqual([])
  expect(await jobRows(database)).toMatchObject([{ state: 'queued', error: 'no' }])

  broken = false
  await database.pool.query('update jobs set run_at = now()')
  await drain(database, [doomed])
  expect(await effects(database)).toEqual(['given up'])
  expect(await jobRows(database)).toMatchObject([{ state: 'failed', error: 'no' }])
})

test('cancels a queued job at once; reports a done, failed or unknown job as gone', async () => {
  await using database = await testDatabase()
  const id = await enqueue(database.db, noteJob, { text: 'never' })
  expect(await cancelJob(database.db, id)).toBe('canceled')
  expect(await cancelJob(database.db, id)).toBe('canceled')
  expect(await cancelJob(database.db, newId())).toBe('gone')
  await drain(database, [createNoteHandler(() => Promise.reject(new Error('ran')))])
  expect(await jobRows(database)).toMatchObject([{ state: 'canceled', attempt: 0 }])
})

test('enqueuing a canceled or failed job again starts it from scratch', async () => {
  await using database = await testDatabase()
  const ids = await enqueueAll(
    database.db,
    noteJob,
    ['a', 'b', 'c'].map((text) => ({ payload: { text } })),
  )
  expect([...(await cancelAll(database.db, ids)).values()]).toEqual(['canceled', 'canceled', 'canceled'])
  await database.pool.query(`update jobs set state = 'failed', failures = 5, crashes = 25 where id = $1`, [ids[0]])
  await enqueueAll(
    database.db,
    noteJob,
    ids.map((id) => ({ id, payload: { text: 'again' } })),
  )
  const seen: string[] = []
  await drain(database, [createNoteHandler(async (job) => void seen.push(job.payload.text))])
  expect(seen).toEqual(['again', 'again', 'again'])
})

test('a limit of 0 pauses a key; a key without a limit is not paused', async () => {
  await using database = await testDatabase()
  await setLimit(database.db, 'paused', 0)
  await enqueue(database.db, noteJob, { text: 'paused' }, { limitKeys: ['paused'], priority: 9 })
  await enqueue(database.db, noteJob, { text: 'free' }, { limitKeys: ['free'] })
  const seen: string[] = []
  const handlers = [createNoteHandler(async (job) => void seen.push(job.payload.text))]
  await drain(database, handlers)
  expect(seen).toEqual(['free'])
  await setLimit(database.db, 'paused', null)
  await drain(database, handlers)
  expect(seen).toEqual(['free', 'paused'])
})

test('gives up a job whose worker died 25 times without running it', async () => {
  await using database = await testDatabase()
  await enqueue(database.db, noteJob, { text: 'deadly' })
  await database.pool.query('update jobs set crashes = 25')
  await drain(database, [createNoteHandler(() => Promise.reject(new Error('ran')))])
  expect(await jobRows(database)).toMatchObject([{ state: 'failed', error: 'The worker of the job died 25 times.' }])
})
