import { expect, test } from 'vitest'
import { z } from 'zod'
import { testDatabase } from '../../../test/support/database.ts'
import { transact } from '../db/db.ts'
import { newId } from '../ids.ts'
import { drain } from './drain.ts'
import { cancel, cancelAll, enqueue, enqueueAll, setLimit } from './jobs.ts'
import { addEffect, effects, effectsDatabase, jobRows, note, noting } from './test-support.ts'

test('a job is there only if the transaction that enqueued it commits', async () => {
  await using database = await testDatabase()
  const undone = transact(database.db, async (tx) => {
    await enqueue(tx, note, { text: 'never' })
    throw new Error('undo')
  })
  await expect(undone).rejects.toThrow('undo')
  expect(await jobRows(database)).toEqual([])
})

test('a job that ran leaves no row', async () => {
  await using database = await testDatabase()
  const seen: string[] = []
  await enqueue(database.db, note, { text: 'hello' })
  await drain(database, [noting(async (job) => void seen.push(`${job.payload.text} ${job.attempt}`))])
  expect(seen).toEqual(['hello 1'])
  expect(await jobRows(database)).toEqual([])
})

test('the same id twice is one job, also within one call', async () => {
  await using database = await testDatabase()
  const id = newId()
  expect(await enqueue(database.db, note, { text: 'first' }, { id })).toBe(id)
  await enqueue(database.db, note, { text: 'second' }, { id })
  const jobs = [
    { id, payload: { text: 'third' } },
    { id, payload: { text: 'fourth' } },
  ]
  expect(await enqueueAll(database.db, note, jobs)).toEqual([id, id])
  const seen: string[] = []
  await drain(database, [noting(async (job) => void seen.push(job.payload.text))])
  expect(seen).toEqual(['first'])
})

test('a high priority goes first, then the older one', async () => {
  await using database = await testDatabase()
  const texts = { low: -1, first: 0, second: 0, high: 5 }
  for (const [text, priority] of Object.entries(texts)) await enqueue(database.db, note, { text }, { priority })
  const seen: string[] = []
  await drain(database, [noting(async (job) => void seen.push(job.payload.text))])
  expect(seen).toEqual(['high', 'first', 'second', 'low'])
})

test('a job waits for its time', async () => {
  await using database = await testDatabase()
  await enqueue(database.db, note, { text: 'later' }, { runAt: new Date(Date.now() + 60_000), priority: 9 })
  await enqueue(database.db, note, { text: 'now' })
  const seen: string[] = []
  const kinds = [noting(async (job) => void seen.push(job.payload.text))]
  await drain(database, kinds)
  expect(seen).toEqual(['now'])
  await database.pool.query('update jobs set run_at = now()')
  await drain(database, kinds)
  expect(seen).toEqual(['now', 'later'])
})

test('an error is kept and tried again, each time later, until the job has failed', async () => {
  await using database = await testDatabase()
  await enqueue(database.db, note, { text: 'broken' })
  const told: string[] = []
  const broken = {
    ...noting(async (job) => {
      throw new Error(`try ${job.attempt}\0${'x'.repeat(3_000)}`)
    }),
    failed: async (_: unknown, payload: { text: string }, reason: string) =>
      void told.push(`${payload.text}: ${reason.slice(0, 5)}`),
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
  expect(told).toEqual([])
  await drain(database, [broken])
  const [row] = await jobRows(database)
  expect(row).toMatchObject({ state: 'failed', failures: 5 })
  expect(row?.error).toBe(`try 5${'x'.repeat(1_995)}`)
  expect(told).toEqual(['broken: try 5'])
})

test('a job that works on its third try is done', async () => {
  await using database = await effectsDatabase()
  await enqueue(database.db, note, { text: 'stubborn' })
  const flaky = noting(async (job) => {
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

test('what a job wrote in finish is undone when finish throws, and the job is tried again', async () => {
  await using database = await effectsDatabase()
  await enqueue(database.db, note, { text: 'half' })
  const half = noting((job) =>
    job.finish(async (tx) => {
      await addEffect(tx, 'half')
      throw new Error('power cut')
    }),
  )
  await drain(database, [half])
  expect(await effects(database)).toEqual([])
  expect(await jobRows(database)).toMatchObject([{ state: 'queued', failures: 1, error: 'power cut' }])
})

test('an error after finish does not bring the job back', async () => {
  await using database = await effectsDatabase()
  await enqueue(database.db, note, { text: 'late' })
  const late = noting(async (job) => {
    await job.finish((tx) => addEffect(tx, 'done'))
    throw new Error('too late')
  })
  await drain(database, [late])
  expect(await effects(database)).toEqual(['done'])
  expect(await jobRows(database)).toEqual([])
})

test('a job may enqueue itself again in its own end', async () => {
  await using database = await effectsDatabase()
  const id = await enqueue(database.db, note, { text: '3' })
  const countdown = noting((job) =>
    job.finish(async (tx) => {
      await addEffect(tx, job.payload.text)
      const left = Number(job.payload.text) - 1
      if (left > 0) await enqueue(tx, note, { text: String(left) }, { id: job.id })
    }),
  )
  await drain(database, [countdown])
  expect(await effects(database)).toEqual(['1', '2', '3'])
  expect(await cancel(database.db, id)).toBe('gone')
})

test('a payload of another shape fails at once and says why; a kind that is not known here waits', async () => {
  await using database = await testDatabase()
  const older = { kind: 'note', payload: z.object({ words: z.number() }) }
  await enqueue(database.db, older, { words: 3 })
  await enqueue(database.db, { kind: 'newer', payload: z.object({}) }, {})
  await drain(database, [noting(async () => {})])
  const rows = await jobRows(database)
  expect(rows).toMatchObject([
    { state: 'failed', attempt: 1 },
    { state: 'queued', attempt: 0 },
  ])
  expect(rows[0]?.error).toMatch(/payload does not fit the kind note.*text/s)
})

test('the row that waits for a failed job is told in the same transaction, or the job comes back', async () => {
  await using database = await effectsDatabase()
  await enqueue(database.db, { ...note, failuresMax: 1 }, { text: 'doomed' })
  let broken = true
  const doomed = {
    ...noting(async () => {
      throw new Error('no')
    }),
    failed: async (tx: typeof database.db) => {
      await addEffect(tx, 'told')
      if (broken) throw new Error('hook is broken')
    },
  }
  await drain(database, [doomed])
  expect(await effects(database)).toEqual([])
  expect(await jobRows(database)).toMatchObject([{ state: 'queued', error: 'no' }])

  broken = false
  await database.pool.query('update jobs set run_at = now()')
  await drain(database, [doomed])
  expect(await effects(database)).toEqual(['told'])
  expect(await jobRows(database)).toMatchObject([{ state: 'failed', error: 'no' }])
})

test('a queued job is canceled at once; one that is done, failed or unknown is gone', async () => {
  await using database = await testDatabase()
  const id = await enqueue(database.db, note, { text: 'never' })
  expect(await cancel(database.db, id)).toBe('canceled')
  expect(await cancel(database.db, id)).toBe('canceled')
  expect(await cancel(database.db, newId())).toBe('gone')
  await drain(database, [noting(() => Promise.reject(new Error('ran')))])
  expect(await jobRows(database)).toMatchObject([{ state: 'canceled', attempt: 0 }])
})

test('a canceled or failed job that is enqueued again starts afresh', async () => {
  await using database = await testDatabase()
  const ids = await enqueueAll(
    database.db,
    note,
    ['a', 'b', 'c'].map((text) => ({ payload: { text } })),
  )
  expect([...(await cancelAll(database.db, ids)).values()]).toEqual(['canceled', 'canceled', 'canceled'])
  await database.pool.query(`update jobs set state = 'failed', failures = 5, crashes = 25 where id = $1`, [ids[0]])
  await enqueueAll(
    database.db,
    note,
    ids.map((id) => ({ id, payload: { text: 'again' } })),
  )
  const seen: string[] = []
  await drain(database, [noting(async (job) => void seen.push(job.payload.text))])
  expect(seen).toEqual(['again', 'again', 'again'])
})

test('a key with 0 slots is paused, a key without a limit is not', async () => {
  await using database = await testDatabase()
  await setLimit(database.db, 'paused', 0)
  await enqueue(database.db, note, { text: 'paused' }, { limitKeys: ['paused'], priority: 9 })
  await enqueue(database.db, note, { text: 'free' }, { limitKeys: ['free'] })
  const seen: string[] = []
  const kinds = [noting(async (job) => void seen.push(job.payload.text))]
  await drain(database, kinds)
  expect(seen).toEqual(['free'])
  await setLimit(database.db, 'paused', null)
  await drain(database, kinds)
  expect(seen).toEqual(['free', 'paused'])
})

test('a job whose worker died 25 times is given up without running', async () => {
  await using database = await testDatabase()
  await enqueue(database.db, note, { text: 'deadly' })
  await database.pool.query('update jobs set crashes = 25')
  await drain(database, [noting(() => Promise.reject(new Error('ran')))])
  expect(await jobRows(database)).toMatchObject([{ state: 'failed', error: 'It ended its worker 25 times.' }])
})
