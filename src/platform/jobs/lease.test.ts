import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { hostname } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { expect, test } from 'vitest'
import {
  addEffect,
  cancelJob,
  claimJobs,
  createGate,
  createNoteHandler,
  effects,
  effectsDatabase,
  eventually,
  jobRows,
  noteJob,
  stealLease,
  testWorker,
} from '../../../test/support/jobs/fixtures.ts'
import { seeded } from '../../../test/support/seeded.ts'
import type { Database } from '../db/db.ts'
import { newId } from '../ids.ts'
import { enqueue, enqueueAll, LeaseLost } from './jobs.ts'
import { createLease, endLease, sendHeartbeat } from './lease.ts'
import { endJob, reapDead } from './sql.ts'
import { nameSession, upsertWorker } from './workers/sql.ts'

test('heartbeats renew the lease of a job that outlasts it', async () => {
  await using database = await effectsDatabase()
  const handlers = [
    createNoteHandler(async (job) => {
      const begun = performance.now()
      await eventually(() => performance.now() - begun).toBeGreaterThan(3 * 1_500)
      await job.finish((tx) => addEffect(tx, `attempt ${job.attempt}`))
    }),
  ]
  await using _first = testWorker(database, { handlers, leaseMs: 1_500 })
  await using _second = testWorker(database, { handlers, leaseMs: 1_500 })
  await enqueue(database.db, noteJob, { text: 'long' })
  await eventually(() => effects(database)).toEqual(['attempt 1'])
})

test('the jobs of a dead worker are taken over before their leases expire', async () => {
  await using database = await effectsDatabase()
  await leaveJobOfSilentWorker(database)
  const unattendedMs: number[] = []
  const handlers = [
    createNoteHandler((job) => {
      unattendedMs.push(job.unattendedMs)
      return job.finish((tx) => addEffect(tx, `attempt ${job.attempt}`))
    }),
  ]
  await using _worker = testWorker(database, { handlers })
  await eventually(() => effects(database)).toEqual(['attempt 2'])
  expect(unattendedMs).toEqual([expect.toSatisfy((ms: number) => ms >= 60_000 && ms < 120_000)])
})

test('a worker that does not report keeps its jobs while it has a session', async () => {
  await using database = await effectsDatabase()
  const workerId = await leaveJobOfSilentWorker(database)
  const session = new pg.Client({ connectionString: database.url, application_name: nameSession(workerId) })
  await session.connect()
  expect(await reapDead(database.db, { silentMs: 1_000 })).toBe(false)
  await session.end()
  expect(await reapDead(database.db)).toBe(false)
  await eventually(() => reapDead(database.db, { silentMs: 1_000 })).toBe(true)
})

test('a worker continues the jobs of ended processes of its host before it starts others', async () => {
  const child = spawn('true')
  await once(child, 'exit')
  for (const [processId, order] of [
    [child.pid, ['orphan', 'next']],
    [process.ppid, ['next']],
  ] as const) {
    await using database = await effectsDatabase()
    await leaveJobOfSilentWorker(database, { host: hostname(), processId: processId ?? 0 })
    await enqueue(database.db, noteJob, { text: 'next' })
    const started: string[] = []
    const handlers = [createNoteHandler(async (job) => void started.push(job.payload.text))]
    await using _worker = testWorker(database, { handlers, slots: 1, leaseMs: 600_000 })
    await eventually(() => started).toContain('next')
    expect(started).toEqual(order)
  }
})

/** Creates a job with a valid lease of a worker that has not reported for a minute. */
async function leaveJobOfSilentWorker(
  database: Database,
  place = { host: 'elsewhere', processId: 1 },
): Promise<string> {
  const worker = { id: newId(), ...place }
  await upsertWorker(database.db, worker)
  await database.pool.query(`update workers set seen_at = now() - interval '1 minute'`)
  await enqueue(database.db, noteJob, { text: 'orphan' })
  const claimed = await claimJobs(database.db, { workerId: worker.id, types: ['note'], slots: 1, leaseMs: 600_000 })
  expect(claimed).toHaveLength(1)
  return worker.id
}

test('a worker that lost its lease can no longer write', async () => {
  await using database = await effectsDatabase()
  const begun = createGate()
  const frozen = createGate()
  const firstRefused = createGate()
  const refused: unknown[] = []
  const handlers = [
    createNoteHandler(async (job) => {
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
  // The lease is long, so that its own heartbeat does not notice.
  await using first = testWorker(database, { handlers, leaseMs: 60_000 })
  const id = await enqueue(database.db, noteJob, { text: 'contested' })
  await begun.opened
  await using _second = testWorker(database, { handlers })
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

test('the lease of an earlier job with the same id is not valid for the next one', async () => {
  await using database = await effectsDatabase()
  const begun = createGate()
  const frozen = createGate()
  const held = createGate()
  const refused: unknown[] = []
  const handlers = [
    createNoteHandler(async (job) => {
      if (job.payload.text === 'next life') return held.opened
      if (job.attempt > 1) return
      begun.open()
      await frozen.opened
      await job.finish((tx) => addEffect(tx, 'ghost')).catch((error) => refused.push(error))
    }),
  ]
  await using _worker = testWorker(database, { handlers, leaseMs: 60_000 })
  const id = await enqueue(database.db, noteJob, { text: 'first life' })
  await begun.opened
  await stealLease(database, id)
  await eventually(() => jobRows(database)).toEqual([])
  await enqueue(database.db, noteJob, { text: 'next life' }, { id })
  await eventually(() => jobRows(database)).toMatchObject([{ state: 'running', attempt: 1 }])

  frozen.open()
  await eventually(() => refused).toEqual([expect.any(LeaseLost)])
  expect(await jobRows(database)).toMatchObject([{ state: 'running', attempt: 1 }])
  held.open()
  await eventually(() => jobRows(database)).toEqual([])
})

test('the next heartbeat aborts the signal of a job whose lease was taken', async () => {
  await using database = await effectsDatabase()
  const begun = createGate()
  const reasons: unknown[] = []
  const handlers = [
    createNoteHandler(async (job) => {
      if (job.attempt > 1) return
      begun.open()
      await new Promise((resolve) => job.signal.addEventListener('abort', resolve))
      reasons.push(job.signal.reason)
      job.signal.throwIfAborted()
    }),
  ]
  await using worker = testWorker(database, { handlers })
  const id = await enqueue(database.db, noteJob, { text: 'taken' })
  await begun.opened
  await stealLease(database, id)
  await eventually(() => worker.counts()).toMatchObject({ lost: 1, retried: 0, running: 0 })
  await eventually(() => jobRows(database)).toEqual([])
  expect(reasons).toEqual([expect.any(LeaseLost)])
})

test('a write that outlasts the lease keeps it and renews it at its end', async () => {
  await using database = await effectsDatabase()
  const remainingMs: number[] = []
  const handlers = [
    createNoteHandler(async (job) => {
      await job.write(async (tx) => {
        await addEffect(tx, `write ${job.attempt}`)
        const begun = performance.now()
        await eventually(() => performance.now() - begun).toBeGreaterThan(2 * 1_200)
      })
      remainingMs.push(await readLeaseMs(database))
      await job.finish((tx) => addEffect(tx, `end ${job.attempt}`))
    }),
  ]
  await using _first = testWorker(database, { handlers, leaseMs: 1_200 })
  await using _second = testWorker(database, { handlers, leaseMs: 1_200 })
  await enqueue(database.db, noteJob, { text: 'slow' })
  await eventually(() => effects(database)).toEqual(['end 1', 'write 1'])
  expect(remainingMs[0]).toBeGreaterThan(800)
})

async function readLeaseMs(database: Database): Promise<number> {
  const { rows } = await database.pool.query<{ ms: number }>(
    `select (extract(epoch from leased_until - clock_timestamp()) * 1000)::float8 as ms
    from jobs where state = 'running' and type = 'note'`,
  )
  return rows[0]?.ms ?? Number.NaN
}

test('the job of a dead worker is canceled if that was requested, otherwise requeued', async () => {
  await using database = await effectsDatabase()
  const canceled = await enqueue(database.db, noteJob, { text: 'canceled' })
  const requeued = await enqueue(database.db, noteJob, { text: 'requeued' })
  await claimJobs(database.db, { workerId: newId(), types: ['note'], slots: 2, leaseMs: 60_000 })
  expect(await cancelJob(database.db, canceled)).toBe('requested')
  for (const id of [canceled, requeued]) await stealLease(database, id)
  const rows = await jobRows(database)
  expect(Object.fromEntries(rows.map((row) => [row.id, row]))).toMatchObject({
    [canceled]: { state: 'canceled', crashes: 1, failures: 0 },
    [requeued]: { state: 'queued', crashes: 1, failures: 0 },
  })
})

test('a job whose worker died twice runs alone on its host', async () => {
  await using database = await effectsDatabase()
  const options = { workerId: newId(), host: 'here', types: ['note'], slots: 5, memoryMb: 1_000, leaseMs: 60_000 }
  const claimTexts = async () => (await claimJobs(database.db, options)).map(({ payload }) => payload)
  const add = (text: string, priority = 0) => enqueue(database.db, noteJob, { text }, { memoryMb: 100, priority })
  const unlucky = await add('unlucky')
  for (const _ of ['first death', 'second death']) {
    expect(await claimTexts()).toEqual([{ text: 'unlucky' }])
    await stealLease(database, unlucky)
  }
  const neighbour = await add('neighbour', 1)
  expect(await claimTexts()).toEqual([{ text: 'neighbour' }])
  await database.pool.query('delete from jobs where id = $1', [neighbour])
  await add('later neighbour')
  expect(await claimTexts()).toEqual([{ text: 'unlucky' }])
  expect(await claimTexts()).toEqual([])
})

test('a heartbeat during the commit of the end does not declare the lease lost', async () => {
  await using database = await effectsDatabase()
  await enqueue(database.db, noteJob, { text: 'ending' })
  const worker = { id: newId(), host: 'here', processId: 1 }
  const [job] = await claimJobs(database.db, { workerId: worker.id, types: ['note'], slots: 1, leaseMs: 60_000 })
  if (!job) throw new Error('no job claimed')
  const lease = createLease(job, { database, leaseMs: 60_000, claimedAt: performance.now() })
  await endLease(lease, async () => {
    await endJob(database.db, job)
    await sendHeartbeat({ db: database.db, worker, leaseMs: 60_000 }, [lease])
  })
  expect(lease).toMatchObject({ state: 'ended', abort: { signal: { aborted: false } } })
})

test.each([1, 2, 3, 4, 5])('effects happen exactly once under races and lease thefts (round %i)', async (seed) => {
  await using database = await effectsDatabase()
  const random = seeded(seed)
  // On a busy machine every job might end before the first theft.
  const firstTheft = createGate()
  const texts = Array.from({ length: 40 }, (_, i) => String(i).padStart(2, '0'))
  const handlers = [
    createNoteHandler(async (job) => {
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
    noteJob,
    texts.map((text) => ({ payload: { text } })),
  )
  await using _a = testWorker(database, { handlers })
  await using _b = testWorker(database, { handlers })
  await using _c = testWorker(database, { handlers })
  for (let rows = await jobRows(database); rows.length > 0; rows = await jobRows(database)) {
    // Not too often from the same job: it would be given up.
    const prey = rows.filter((row) => row.state === 'running' && row.crashes < 5)
    const id = prey[Math.floor(random() * prey.length)]?.id
    if (id && (await stealLease(database, id))) firstTheft.open()
  }
  expect(await effects(database)).toEqual(texts)
})
