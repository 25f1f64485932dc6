import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { inBenchmark } from '../../src/comparisons/schema.ts'
import { TrialChange } from '../../src/comparisons/shapes/schema.ts'
import { call, type ReceivedEvent, streamEvents } from '../../src/platform/http/client.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { createKey, deleteKey, listKeys } from '../../src/workspaces/schema.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { type ServiceProcess, startService } from '../support/service.ts'
import { CHAOS, writeDataset } from './dataset.ts'
import { patientUser } from './patient.ts'

vi.setConfig({ testTimeout: 600_000, hookTimeout: 120_000 })

const [TASKS, ATTEMPTS] = [6, 2]
const TRIALS = TASKS * 2 * ATTEMPTS
const key = newKey()
const folder = mkdtempSync(join(tmpdir(), 'assay-two-'))

let database: TestDatabase
let apis: ServiceProcess[]
let workers: ServiceProcess[]

/** Simulates four machines that share only the database, the blobs and the master key. */
beforeAll(async () => {
  writeDataset(join(folder, 'registry'), TASKS)
  database = await testDatabase()
  const environment = {
    DATABASE_URL: database.url,
    ASSAY_DATABASE_CONNECTIONS: '6',
    ASSAY_BLOBS: `file:${join(folder, 'blobs')}`,
    ASSAY_SECRET_KEY: randomBytes(32).toString('hex'),
    ASSAY_BOOTSTRAP_KEY: key,
    ASSAY_PORT: '0',
    ASSAY_REGISTRIES: `dir:${join(folder, 'registry')}`,
    ASSAY_SANDBOXES: 'local',
    ASSAY_ALLOW_HOST_BASE: '1',
    ASSAY_WORKER_SLOTS: '2',
  }
  const start = (role: 'api' | 'work', name: string) =>
    startService(role, [], { ...environment, ASSAY_DATA: join(folder, name) })
  apis = await Promise.all([start('api', 'api-1'), start('api', 'api-2')])
  workers = await Promise.all([start('work', 'work-1'), start('work', 'work-2')])
})

afterAll(async () => {
  await Promise.all([...apis, ...workers].map((service) => service.kill('SIGTERM')))
  await database[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

const at = (api: number) => ({ url: apis[api]?.url ?? '', key })

/** Reads events until there are enough, then disconnects. */
async function hear(
  api: number,
  comparisonId: string,
  lastId: string | undefined,
  isEnough: (all: ReceivedEvent[]) => boolean,
) {
  const hangUp = new AbortController()
  const heard: ReceivedEvent[] = []
  const params = { ...CHAOS, comparisonId }
  const stream = streamEvents(at(api), inBenchmark.events, { params }, { signal: hangUp.signal, lastId })
  for await (const event of stream) {
    heard.push(event)
    if (isEnough(heard)) break
  }
  hangUp.abort()
  return heard
}

const endsIn = (heard: ReceivedEvent[]): TrialChange[] =>
  heard
    .filter(({ event }) => event === 'trial')
    .map(({ data }) => TrialChange.parse(data))
    .filter(({ state }) => state === 'passed' || state === 'failed')

const lastIdIn = (heard: ReceivedEvent[]): string | undefined => heard.findLast(({ id }) => id !== undefined)?.id

/** Processes that ran a trial. */
async function listBusy(): Promise<number[]> {
  const { rows } = await database.pool.query<{ pid: number }>(
    `select distinct process_id as pid from jobs join workers on workers.id = worker_id where type = 'trial.local'`,
  )
  return rows.map(({ pid }) => pid)
}

const countOffers = async (): Promise<number> =>
  (await database.pool.query('select from sandbox_offers where available')).rowCount ?? 0

test('a comparison created in one process can be watched in both: all workers take part and no event is lost', async () => {
  const [first, second] = [patientUser(at(0)), patientUser(at(1))]
  await vi.waitUntil(async () => (await countOffers()) === 2, { timeout: 120_000 })
  await first.addBenchmark()
  const id = randomUUID()
  await first.create({ id, attempts: ATTEMPTS })
  expect(await second.read(id)).toMatchObject({ id, state: expect.stringMatching(/submitting|running/) })

  const busy = new Set<number | undefined>()
  const watching = vi.waitUntil(
    async () => {
      for (const pid of await listBusy()) busy.add(pid)
      return busy.size === 2
    },
    { timeout: 300_000, interval: 20 },
  )
  const isHalf = (heard: ReceivedEvent[]) => endsIn(heard).length >= TRIALS / 2 && heard.at(-1)?.event === 'status'
  const before = await hear(1, id, undefined, isHalf)
  const after = await hear(0, id, lastIdIn(before), () => false)
  await watching
  expect(busy).toEqual(new Set(workers.map((worker) => worker.process.pid)))

  expect(after.at(-1)).toMatchObject({ event: 'end', data: { state: 'completed' } })
  const ends = new Set(endsIn([...before, ...after]).map((trial) => JSON.stringify(trial)))
  const trials = await second.trials(id)
  const expected = trials.map(({ id: trial, task, settingId, attempt, state, class: word, reward }) =>
    JSON.stringify({ id: trial, task: task.name, settingId, attempt, state, class: word, reward }),
  )
  expect([...ends].toSorted()).toEqual(expected.toSorted())
  expect(ends.size).toBe(TRIALS)
  expect(await first.read(id)).toMatchObject({ trials: { total: TRIALS, passed: TRIALS / 2, failed: TRIALS / 2 } })
})

test('a key that one process revokes is rejected by both', async () => {
  const { body } = await call(at(0), createKey, { params: CHAOS, body: { name: 'short', permission: 'read' } })
  const use = (api: number) =>
    call({ ...at(api), key: body.key }, listKeys, { params: CHAOS }).then(
      ({ status }) => status,
      (error) => error.problem.status,
    )
  expect([await use(0), await use(1)]).toEqual([200, 200])
  await call(at(1), deleteKey, { params: { ...CHAOS, keyId: body.id } })
  expect([await use(0), await use(1)]).toEqual([401, 401])
})
