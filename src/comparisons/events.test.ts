import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { type ComparisonLab, openComparisonLab, QUICK } from '../../test/support/comparisons.ts'
import { testDatabase } from '../../test/support/database.ts'
import { readEvents } from '../platform/http/client.ts'
import { createKey, deleteKey, readWorkspace } from '../workspaces/schema.ts'
import { Comparison, TrialChange } from './shapes/schema.ts'

const KEY = randomBytes(32).toString('hex')

let app: TestApp
let lab: ComparisonLab
beforeAll(async () => {
  app = await testApp({ ASSAY_SECRET_KEY: KEY })
  lab = await openComparisonLab(app)
})
afterAll(async () => app[Symbol.asyncDispose]())

type ReceivedEvent = { event: string; data: string; id: string | undefined }

async function watch(id: string, lastEventId?: string, url = app.url, key = app.adminKey) {
  const abort = new AbortController()
  const path = `/api/orgs/local/benchmarks/${QUICK.datasetOrg}/${QUICK.dataset}/evaluations/comparisons/${id}/events`
  const response = await fetch(url + path, {
    headers: {
      authorization: `Bearer ${key}`,
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    },
    signal: abort.signal,
  })
  const events = readEvents(response.body ?? new ReadableStream())
  return {
    response,
    hangUp: () => abort.abort(),
    async until(isEnough: (event: ReceivedEvent) => boolean): Promise<ReceivedEvent[]> {
      const heard: ReceivedEvent[] = []
      while (true) {
        const { value, done } = await events.next()
        if (done) return heard
        heard.push(value)
        if (isEnough(value)) return heard
      }
    },
  }
}

const isEnd = ({ event }: ReceivedEvent) => event === 'end'
const trialsIn = (heard: ReceivedEvent[]) =>
  heard.filter(({ event }) => event === 'trial').map(({ data }) => TrialChange.parse(JSON.parse(data)))

test('a watcher receives the status, every trial change and the end', async () => {
  const { body } = await lab.create()
  const stream = await watch(body.id)
  expect(stream.response.headers.get('content-type')).toBe('text/event-stream')
  const [first] = await stream.until(({ event }) => event === 'status')
  expect(Comparison.parse(JSON.parse(first?.data ?? ''))).toMatchObject({ state: 'submitting' })
  const [heard] = await Promise.all([stream.until(isEnd), lab.work()])
  expect(heard.at(-1)).toMatchObject({ event: 'end', data: '{"state":"completed"}' })
  const passed = new Set(
    trialsIn(heard)
      .filter(({ state }) => state === 'passed')
      .map(({ id }) => id),
  )
  expect(passed.size).toBe(5)
})

test('a stream ends when the key that opened it is revoked or expires, and only then', async () => {
  const { body } = await lab.create()
  const keyUntil = async (expiresAt: string | null) =>
    (await app.call(createKey, { body: { name: 'reader', permission: 'read', expiresAt } })).body
  const revoked = await keyUntil(null)
  const expiring = await keyUntil(new Date(Date.now() + 1500).toISOString())
  const [stays, dies, expires] = await Promise.all([
    watch(body.id),
    watch(body.id, undefined, app.url, revoked.key),
    watch(body.id, undefined, app.url, expiring.key),
  ])
  for (const stream of [stays, dies, expires]) await stream.until(({ event }) => event === 'status')
  await app.call(deleteKey, { params: { keyId: revoked.id } })
  const begun = performance.now()
  expect(await dies.until(isEnd)).toEqual([])
  expect(performance.now() - begun).toBeLessThan(5000)
  expect(await expires.until(isEnd)).toEqual([])
  const [heard] = await Promise.all([stays.until(isEnd), lab.work()])
  expect(heard.at(-1)).toMatchObject({ event: 'end' })
})

test('a client that reconnects with the last id receives the missed changes from any process', async () => {
  await using other = await testApp({ ASSAY_SECRET_KEY: KEY }, app.database)
  const { body } = await lab.create()
  const first = await watch(body.id)
  const [status] = await first.until(({ event }) => event === 'status')
  first.hangUp()
  await lab.work()
  const again = await watch(body.id, status?.id, other.url)
  const heard = await again.until(isEnd)
  expect(
    trialsIn(heard)
      .map(({ state }) => state)
      .sort(),
  ).toEqual([...Array(5).fill('failed'), ...Array(5).fill('passed')])
  const fresh = await (await watch(body.id)).until(isEnd)
  expect(fresh.map(({ event }) => event)).toEqual(['status', 'end'])
})

test('an invalid event id is ignored', async () => {
  const { body } = await lab.create()
  await lab.work()
  for (const id of ['0', "1:1:'; drop table trials", '9'.repeat(5000), 'x:y:z', '5:3:', '0:0:', '1:9:9,8', '3:3:1']) {
    const heard = await (await watch(body.id, id)).until(isEnd)
    expect(heard.map(({ event }) => event).filter((event) => event !== 'trial')).toEqual(['status', 'end'])
  }
})

test('many watched comparisons leave connections for other requests', async () => {
  await using database = await testDatabase({ max: 6 })
  await using busy = await testApp({ ASSAY_SECRET_KEY: KEY }, database)
  const own = await openComparisonLab(busy)
  const created = []
  for (let count = 0; count < 12; count += 1) created.push((await own.create()).body.id)
  const streams = await Promise.all(created.map((id) => watch(id, undefined, busy.url, busy.adminKey)))
  await Promise.all(streams.map((stream) => stream.until(({ event }) => event === 'status')))

  // The polls wait for this lock, as they would for a slow database.
  const blocker = new pg.Client({ connectionString: database.url })
  await blocker.connect()
  await blocker.query('begin')
  await blocker.query('lock table comparisons in access exclusive mode')
  const countWaiting = async (): Promise<number> => {
    const waiting = await blocker.query(
      `select count(*)::int from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return waiting.rows[0].count
  }
  await expect.poll(countWaiting).toBe(2)
  expect((await busy.call(readWorkspace)).status).toBe(200)
  expect(await countWaiting()).toBe(2)
  await blocker.query('rollback')
  await blocker.end()
  for (const stream of streams) stream.hangUp()
})
