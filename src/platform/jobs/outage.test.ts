import { createServer, connect as dial, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import {
  addEffect,
  createGate,
  createNoteHandler,
  effects,
  effectsDatabase,
  eventually,
  jobRows,
  noteJob,
  silentLog,
  testWorker,
} from '../../../test/support/jobs/fixtures.ts'
import { connect, type Database } from '../db/db.ts'
import { newId } from '../ids.ts'
import { enqueue, LeaseLost } from './jobs.ts'

test('a worker and its job survive the loss of all connections', async () => {
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
  await using _worker = testWorker(database, { handlers, leaseMs: 4_000 })
  await enqueue(database.db, noteJob, { text: 'before' })
  await begun.opened
  await killConnections(database)
  goOn.open()
  await enqueueAgain(database, 'after')
  await eventually(() => effects(database)).toEqual(['after', 'before'])
})

test('a listener reconnects after its connection is killed and picks up missed jobs', async () => {
  await using database = await effectsDatabase()
  const seen: string[] = []
  const handlers = [createNoteHandler(async (job) => void seen.push(job.payload.text))]
  await using _worker = testWorker(database, { handlers, pollMs: 600_000, leaseMs: 600_000 })
  await enqueue(database.db, noteJob, { text: 'before' })
  await eventually(() => seen).toEqual(['before'])
  await killConnections(database)
  await enqueueAgain(database, 'while away')
  await eventually(() => seen).toEqual(['before', 'while away'])
})

/** Retries, because the pool may still hold dead connections. */
async function enqueueAgain(database: Database, text: string): Promise<void> {
  const id = newId()
  await eventually(() => enqueue(database.db, noteJob, { text }, { id }).catch(() => 'not yet')).toBe(id)
}

test('a connection lost during finish causes a retry and no duplicate effect', async () => {
  await using database = await effectsDatabase()
  const handlers = [
    createNoteHandler((job) =>
      job.finish(async (tx) => {
        await addEffect(tx, `attempt ${job.attempt}`)
        if (job.attempt === 1) await killConnections(database)
      }),
    ),
  ]
  await using _worker = testWorker(database, { handlers, leaseMs: 4_000 })
  await enqueue(database.db, noteJob, { text: 'cut' })
  await eventually(() => effects(database)).toEqual(['attempt 2'])
  await eventually(() => jobRows(database)).toEqual([])
})

test('repeated database outages do not count as failures of a job', async () => {
  await using database = await effectsDatabase()
  const cut = createNoteHandler((job) =>
    job.finish(async (tx) => {
      await addEffect(tx, `attempt ${job.attempt}`)
      if (job.attempt <= 3) await killConnections(database)
    }),
  )
  const kind = { ...cut, failuresMax: 2 }
  await using _worker = testWorker(database, { handlers: [kind], leaseMs: 4_000 })
  await enqueue(database.db, kind, { text: 'cut' })
  await eventually(() => effects(database)).toEqual(['attempt 4'])
  await eventually(() => jobRows(database)).toEqual([])
})

test.each([
  ['refuses connections', 'cut' as const, 1],
  ['does not respond', 'freeze' as const, 0],
])(
  'a database that %s for longer than the lease: the job is aborted, and work resumes afterwards',
  async (_, harm, lines) => {
    await using database = await effectsDatabase()
    await using cable = await connectCable(database)
    const begun = createGate()
    const reasons: unknown[] = []
    const errors: string[] = []
    const handlers = [
      createNoteHandler(async (job) => {
        if (job.attempt > 1) return job.finish((tx) => addEffect(tx, 'taken up again'))
        begun.open()
        await new Promise((resolve) => job.signal.addEventListener('abort', resolve))
        reasons.push(job.signal.reason)
        job.signal.throwIfAborted()
      }),
    ]
    const log = { ...silentLog, error: (_: object, text: string) => void errors.push(text) }
    await using _worker = testWorker(cable.far, { handlers, log })
    await enqueue(database.db, noteJob, { text: 'cut off' })
    await begun.opened
    cable[harm]()
    await eventually(() => reasons).toEqual([expect.any(LeaseLost)])
    cable.repair()
    await eventually(() => effects(database)).toEqual(['taken up again'])
    expect(errors).toHaveLength(lines)
  },
)

test('a job completed during an outage is recorded afterwards and does not run twice', async () => {
  await using database = await effectsDatabase()
  await using cable = await connectCable(database)
  const begun = createGate()
  const goOn = createGate()
  const attempts: number[] = []
  const errors: string[] = []
  const handlers = [
    createNoteHandler(async (job) => {
      attempts.push(job.attempt)
      begun.open()
      await goOn.opened
    }),
  ]
  const log = { ...silentLog, error: (_: object, text: string) => void errors.push(text) }
  await using _worker = testWorker(cable.far, { handlers, log, leaseMs: 20_000 })
  await enqueue(database.db, noteJob, { text: 'patient' })
  await begun.opened
  cable.cut()
  goOn.open()
  await eventually(() => errors.length).toBeGreaterThan(0)
  cable.repair()
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

/** Opens a TCP relay to the database that can be cut, frozen and repaired. */
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
    repair() {
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
