import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { seeded } from '../../../test/support/seeded.ts'
import type { Database } from '../db/db.ts'
import { newId } from '../ids.ts'
import { beat } from './heartbeat.ts'
import { cancel, enqueue, enqueueAll, LeaseLost } from './jobs.ts'
import { endLease, holdLease } from './lease.ts'
import { endJob } from './sql.ts'
import {
  addEffect,
  claimJobs,
  door,
  effects,
  effectsDatabase,
  eventually,
  jobRows,
  note,
  noting,
  stealLease,
  testWorker,
} from './test-support.ts'

test('heartbeats keep a job that lasts for several leases from being taken', async () => {
  await using database = await effectsDatabase()
  const kinds = [
    noting(async (job) => {
      const begun = performance.now()
      await eventually(() => performance.now() - begun).toBeGreaterThan(3 * 1_500)
      await job.finish((tx) => addEffect(tx, `attempt ${job.attempt}`))
    }),
  ]
  await using _first = testWorker(database, { kinds, leaseMs: 1_500 })
  await using _second = testWorker(database, { kinds, leaseMs: 1_500 })
  await enqueue(database.db, note, { text: 'long' })
  await eventually(() => effects(database)).toEqual(['attempt 1'])
})

test('a worker that lost its lease can write nothing any more', async () => {
  await using database = await effectsDatabase()
  const begun = door()
  const frozen = door()
  const firstRefused = door()
  const refused: unknown[] = []
  const kinds = [
    noting(async (job) => {
      if (job.attempt > 1) {
        await firstRefused.opened
        return job.finish((tx) => addEffect(tx, 'second'))
      }
      begun.open()
      await frozen.opened
      await job.write((tx) => addEffect(tx, 'first, late')).catch((error) => refused.push(error))
      refused.push(job.signal.reason)
      await job.finish((tx) => addEffect(tx, 'first, end')).catch((error) => refused.push(error))
    }),
  ]
  // Its lease is long, so that it does not notice by its own heartbeat.
  await using first = testWorker(database, { kinds, leaseMs: 60_000 })
  const id = await enqueue(database.db, note, { text: 'contested' })
  await begun.opened
  await using _second = testWorker(database, { kinds })
  expect(await stealLease(database, id)).toBe(true)
  await eventually(() => jobRows(database)).toMatchObject([{ state: 'running', attempt: 2 }])

  frozen.open()
  await eventually(() => first.counts().lost).toBe(1)
  expect(refused).toEqual([expect.any(LeaseLost), expect.any(LeaseLost), expect.any(LeaseLost)])
  expect(await effects(database)).toEqual([])
  firstRefused.open()
  await eventually(() => jobRows(database)).toEqual([])
  expect(await effects(database)).toEqual(['second'])
})

test('a lease of an earlier life of the same id does not fit its next one', async () => {
  await using database = await effectsDatabase()
  const begun = door()
  const frozen = door()
  const held = door()
  const refused: unknown[] = []
  const kinds = [
    noting(async (job) => {
      if (job.payload.text === 'next life') return held.opened
      if (job.attempt > 1) return
      begun.open()
      await frozen.opened
      await job.finish((tx) => addEffect(tx, 'ghost')).catch((error) => refused.push(error))
    }),
  ]
  await using _worker = testWorker(database, { kinds, leaseMs: 60_000 })
  const id = await enqueue(database.db, note, { text: 'first life' })
  await begun.opened
  await stealLease(database, id)
  await eventually(() => jobRows(database)).toEqual([])
  await enqueue(database.db, note, { text: 'next life' }, { id })
  await eventually(() => jobRows(database)).toMatchObject([{ state: 'running', attempt: 1 }])

  frozen.open()
  await eventually(() => refused).toEqual([expect.any(LeaseLost)])
  expect(await jobRows(database)).toMatchObject([{ state: 'running', attempt: 1 }])
  held.open()
  await eventually(() => jobRows(database)).toEqual([])
})

test('the signal of a job whose lease was taken aborts with the next heartbeat', async () => {
  await using database = await effectsDatabase()
  const begun = door()
  const reasons: unknown[] = []
  const kinds = [
    noting(async (job) => {
      if (job.attempt > 1) return
      begun.open()
      await new Promise((resolve) => job.signal.addEventListener('abort', resolve))
      reasons.push(job.signal.reason)
      job.signal.throwIfAborted()
    }),
  ]
  await using worker = testWorker(database, { kinds })
  const id = await enqueue(database.db, note, { text: 'taken' })
  await begun.opened
  await stealLease(database, id)
  await eventually(() => worker.counts()).toMatchObject({ lost: 1, retried: 0, running: 0 })
  await eventually(() => jobRows(database)).toEqual([])
  expect(reasons).toEqual([expect.any(LeaseLost)])
})

test('a write that takes longer than the lease keeps it, and leaves it fresh', async () => {
  await using database = await effectsDatabase()
  const left: number[] = []
  const kinds = [
    noting(async (job) => {
      await job.write(async (tx) => {
        await addEffect(tx, `write ${job.attempt}`)
        const begun = performance.now()
        await eventually(() => performance.now() - begun).toBeGreaterThan(2 * 1_200)
      })
      left.push(await leaseLeftMs(database))
      await job.finish((tx) => addEffect(tx, `end ${job.attempt}`))
    }),
  ]
  await using _first = testWorker(database, { kinds, leaseMs: 1_200 })
  await using _second = testWorker(database, { kinds, leaseMs: 1_200 })
  await enqueue(database.db, note, { text: 'slow' })
  await eventually(() => effects(database)).toEqual(['end 1', 'write 1'])
  expect(left[0]).toBeGreaterThan(800)
})

async function leaseLeftMs(database: Database): Promise<number> {
  const { rows } = await database.pool.query<{ ms: number }>(
    `select (extract(epoch from leased_until - clock_timestamp()) * 1000)::float8 as ms
    from jobs where state = 'running' and kind = 'note'`,
  )
  return rows[0]?.ms ?? Number.NaN
}

test('a job whose worker died is canceled if that was asked for, and else queued again', async () => {
  await using database = await effectsDatabase()
  const canceled = await enqueue(database.db, note, { text: 'canceled' })
  const kept = await enqueue(database.db, note, { text: 'kept' })
  await claimJobs(database.db, { workerId: newId(), kinds: ['note'], slots: 2, leaseMs: 60_000 })
  expect(await cancel(database.db, canceled)).toBe('requested')
  for (const id of [canceled, kept]) await stealLease(database, id)
  const rows = await jobRows(database)
  expect(Object.fromEntries(rows.map((row) => [row.id, row]))).toMatchObject({
    [canceled]: { state: 'canceled', crashes: 1, failures: 0 },
    [kept]: { state: 'queued', crashes: 1, failures: 0 },
  })
})

test('a heartbeat that finds the row gone while its end is being committed does not call the lease lost', async () => {
  await using database = await effectsDatabase()
  await enqueue(database.db, note, { text: 'ending' })
  const worker = { id: newId(), host: 'here', processId: 1 }
  const [job] = await claimJobs(database.db, { workerId: worker.id, kinds: ['note'], slots: 1, leaseMs: 60_000 })
  if (!job) throw new Error('There is nothing to claim.')
  const lease = holdLease(job, { database, leaseMs: 60_000, claimedAt: performance.now() })
  await endLease(lease, async () => {
    await endJob(database.db, job)
    await beat({ db: database.db, worker, leaseMs: 60_000 }, [lease])
  })
  expect(lease).toMatchObject({ state: 'ended', abort: { signal: { aborted: false } } })
})

test.each([1, 2, 3, 4, 5])('effects happen once, whoever races and steals (round %i)', async (seed) => {
  await using database = await effectsDatabase()
  const random = seeded(seed)
  // On a busy machine the thief could come too late for all of them.
  const firstTheft = door()
  const texts = Array.from({ length: 40 }, (_, i) => String(i).padStart(2, '0'))
  const kinds = [
    noting(async (job) => {
      await firstTheft.opened
      await pause(random() * 20)
      await job.write(async () => {})
      await job.finish(async (tx) => {
        await addEffect(tx, job.payload.text)
        await pause(random() * 5)
      })
    }),
  ]
  await enqueueAll(
    database.db,
    note,
    texts.map((text) => ({ payload: { text } })),
  )
  await using _a = testWorker(database, { kinds })
  await using _b = testWorker(database, { kinds })
  await using _c = testWorker(database, { kinds })
  for (let rows = await jobRows(database); rows.length > 0; rows = await jobRows(database)) {
    // Not for ever from the same job, which would be given up.
    const prey = rows.filter((row) => row.state === 'running' && row.crashes < 5)
    const id = prey[Math.floor(random() * prey.length)]?.id
    if (id && (await stealLease(database, id))) firstTheft.open()
  }
  expect(await effects(database)).toEqual(texts)
})
