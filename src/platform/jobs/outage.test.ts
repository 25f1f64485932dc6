import { createServer, connect as dial, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { connect, type Database } from '../db/db.ts'
import { newId } from '../ids.ts'
import { enqueue, LeaseLost } from './jobs.ts'
import {
  addEffect,
  door,
  effects,
  effectsDatabase,
  eventually,
  jobRows,
  note,
  noting,
  silent,
  testWorker,
} from './test-support.ts'

test('a worker whose connections are all killed goes on, and so does its job', async () => {
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
  await using _worker = testWorker(database, { kinds, leaseMs: 4_000 })
  await enqueue(database.db, note, { text: 'before' })
  await begun.opened
  await killConnections(database)
  goOn.open()
  await enqueueAgain(database, 'after')
  await eventually(() => effects(database)).toEqual(['after', 'before'])
})

test('a listener whose connection is killed comes back, and what it missed is found', async () => {
  await using database = await effectsDatabase()
  const seen: string[] = []
  const kinds = [noting(async (job) => void seen.push(job.payload.text))]
  await using _worker = testWorker(database, { kinds, pollMs: 600_000, leaseMs: 600_000 })
  await enqueue(database.db, note, { text: 'before' })
  await eventually(() => seen).toEqual(['before'])
  await killConnections(database)
  await enqueueAgain(database, 'while away')
  await eventually(() => seen).toEqual(['before', 'while away'])
})

/** The pool may still hold connections that it does not know to be dead. */
async function enqueueAgain(database: Database, text: string): Promise<void> {
  const id = newId()
  await eventually(() => enqueue(database.db, note, { text }, { id }).catch(() => 'not yet')).toBe(id)
}

test('a connection that is killed in the middle of finish costs a retry and no effect', async () => {
  await using database = await effectsDatabase()
  const kinds = [
    noting((job) =>
      job.finish(async (tx) => {
        await addEffect(tx, `attempt ${job.attempt}`)
        if (job.attempt === 1) await killConnections(database)
      }),
    ),
  ]
  await using _worker = testWorker(database, { kinds, leaseMs: 4_000 })
  await enqueue(database.db, note, { text: 'cut' })
  await eventually(() => effects(database)).toEqual(['attempt 2'])
  await eventually(() => jobRows(database)).toEqual([])
})

test('a database that goes away again and again is no failure of the job that needs it', async () => {
  await using database = await effectsDatabase()
  const cut = noting((job) =>
    job.finish(async (tx) => {
      await addEffect(tx, `attempt ${job.attempt}`)
      if (job.attempt <= 3) await killConnections(database)
    }),
  )
  const kind = { ...cut, failuresMax: 2 }
  await using _worker = testWorker(database, { kinds: [kind], leaseMs: 4_000 })
  await enqueue(database.db, kind, { text: 'cut' })
  await eventually(() => effects(database)).toEqual(['attempt 4'])
  await eventually(() => jobRows(database)).toEqual([])
})

test.each([
  ['refuses', 'cut' as const, 1],
  ['does not answer', 'freeze' as const, 0],
])('a database that %s for longer than the lease: the job is told, and work goes on after', async (_, harm, lines) => {
  await using database = await effectsDatabase()
  await using cable = await connectCable(database)
  const begun = door()
  const reasons: unknown[] = []
  const errors: string[] = []
  const kinds = [
    noting(async (job) => {
      if (job.attempt > 1) return job.finish((tx) => addEffect(tx, 'taken up again'))
      begun.open()
      await new Promise((resolve) => job.signal.addEventListener('abort', resolve))
      reasons.push(job.signal.reason)
      job.signal.throwIfAborted()
    }),
  ]
  const log = { ...silent, error: (_: object, text: string) => void errors.push(text) }
  await using _worker = testWorker(cable.far, { kinds, log })
  await enqueue(database.db, note, { text: 'cut off' })
  await begun.opened
  cable[harm]()
  await eventually(() => reasons).toEqual([expect.any(LeaseLost)])
  cable.mend()
  await eventually(() => effects(database)).toEqual(['taken up again'])
  expect(errors).toHaveLength(lines)
})

test('a job that is done while the database is away is done when it returns, and does not run twice', async () => {
  await using database = await effectsDatabase()
  await using cable = await connectCable(database)
  const begun = door()
  const goOn = door()
  const attempts: number[] = []
  const errors: string[] = []
  const kinds = [
    noting(async (job) => {
      attempts.push(job.attempt)
      begun.open()
      await goOn.opened
    }),
  ]
  const log = { ...silent, error: (_: object, text: string) => void errors.push(text) }
  await using _worker = testWorker(cable.far, { kinds, log, leaseMs: 20_000 })
  await enqueue(database.db, note, { text: 'patient' })
  await begun.opened
  cable.cut()
  goOn.open()
  await eventually(() => errors.length).toBeGreaterThan(0)
  cable.mend()
  await eventually(() => jobRows(database)).toEqual([])
  expect(attempts).toEqual([1])
})

async function killConnections(database: Database): Promise<void> {
  const other = connect(database.url, { max: 1, onError: () => {} })
  await other.pool.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  )
  await other.close()
}

/** A way to the database that can be cut, frozen and mended. */
async function connectCable(database: Database) {
  const there = new URL(database.url)
  const [socketFolder, port] = [there.searchParams.get('host'), there.searchParams.get('port')]
  const lines = new Set<{ from: Socket; to: Socket }>()
  let whole = true
  const server = createServer((near) => {
    const far = socketFolder ? dial(`${socketFolder}/.s.PGSQL.${port}`) : dial(Number(there.port), there.hostname)
    for (const line of [
      { from: near, to: far },
      { from: far, to: near },
    ]) {
      lines.add(line)
      line.from.on('error', () => {}).on('close', () => line.to.destroy())
      line.from.pipe(line.to)
    }
    if (!whole) near.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const here = new URL(database.url)
  here.search = ''
  here.host = `127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
  const far = connect(here.href, { max: 5, onError: () => {} })
  const cut = () => {
    whole = false
    for (const { from } of lines) from.destroy()
  }
  return {
    far,
    cut,
    freeze: () => lines.forEach(({ from, to }) => void from.unpipe(to)),
    mend() {
      whole = true
      for (const { from, to } of lines) from.pipe(to)
    },
    async [Symbol.asyncDispose]() {
      cut()
      server.close()
      await far.close()
    },
  }
}
