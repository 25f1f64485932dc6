import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { buildArchive } from '../../test/support/archives.ts'
import { openComparisonLab, openRepositoryComparisonLab } from '../../test/support/comparisons.ts'
import { openReleaseLab } from '../../test/support/releases.ts'
import { addBenchmark } from '../benchmarks/schema.ts'
import * as schema from './schema.ts'

// Each event comes from what really happened, once, and goes to those that asked for it.

let app: TestApp
let all: string
let some: string
beforeAll(async () => {
  app = await testApp({ ASSAY_PUBLIC_OWNERS: 'lab=local' })
  const create = async (body: object) => (await app.call(schema.createWebhook, { body: body as never })).body.id
  all = await create({ url: 'https://hooks.example.org/all' })
  some = await create({ url: 'https://hooks.example.org/some', events: ['release.withdrawn'] })
})
afterAll(() => app[Symbol.asyncDispose]())

type DeliveredEvent = { type: string; data: Record<string, unknown> }

async function listEventData(webhook: string, type: string): Promise<DeliveredEvent['data'][]> {
  const { rows } = await app.database.pool.query(
    'select body from webhook_deliveries where webhook = $1 order by created_at, id',
    [webhook],
  )
  const bodies: DeliveredEvent[] = rows.map(({ body }) => JSON.parse(body))
  return bodies.filter((each) => each.type === type).map(({ data }) => data)
}

test('benchmark.added is emitted', async () => {
  const body = { reference: 'assay/quick' }
  expect((await app.call(addBenchmark, { body })).status).toBe(201)
  await app.call(addBenchmark, { body })
  expect(await listEventData(all, 'benchmark.added')).toEqual([
    { benchmark: 'assay/quick', digest: expect.any(String) },
  ])
})

test('batch.completed and batch.failed are emitted', async () => {
  const lab = await openRepositoryComparisonLab(app)
  const { place, send, work } = lab.repository
  const repository = `${place.owner}/${place.name}`
  expect(await listEventData(all, 'batch.completed')).toEqual([{ repository, runId: lab.runId }])
  const { runId } = (await send(buildArchive({}))).body
  await work()
  const [failed, ...others] = await listEventData(all, 'batch.failed')
  expect(others).toEqual([])
  expect(failed).toEqual({ repository, runId, error: { code: expect.any(String), message: expect.any(String) } })
})

test('comparison.completed, comparison.paused and comparison.submission_failed are emitted', async () => {
  const lab = await openComparisonLab(app)
  const { body: done } = await lab.create()
  await lab.work()
  const before = await lab.read(done.id)
  // With nothing to try again, a resume neither opens it nor ends it a second time.
  for (const change of [{}, { budgetUsd: 5 }]) {
    const { status, body } = await lab.resume(done.id, change)
    expect([status, body.state, body.finishedAt]).toEqual([202, 'completed', before.finishedAt])
    await lab.work()
  }
  const scope = { kind: 'benchmark', owner: 'assay', name: 'quick' }
  expect(await listEventData(all, 'comparison.completed')).toEqual([
    { comparisonId: done.id, scope, answer: before.answer },
  ])
  const { body: waits } = await lab.create({ budgetUsd: 0 })
  await lab.work()
  expect(await listEventData(all, 'comparison.paused')).toEqual([
    { comparisonId: waits.id, scope, pause: { reason: 'budget', message: expect.any(String) } },
  ])
  const { body: lost } = await lab.create({ attempts: 2 })
  await app.database.pool.query(`update sandbox_offers set available = false`)
  await lab.work()
  const state = (await lab.read(lost.id)).state
  expect(state).toBe('submission_failed')
  expect(await listEventData(all, 'comparison.submission_failed')).toEqual([
    { comparisonId: lost.id, scope, error: { code: expect.any(String), message: expect.any(String) } },
  ])
})

test('release.published and release.withdrawn are emitted once, and only to subscribers', async () => {
  const lab = await openReleaseLab(app)
  await lab.ran({ id: 'acme/a|mini|low', cells: 'pppfff' })
  const { body } = await lab.publishAll()
  await lab.publishAll()
  const repository = `${lab.place.owner}/${lab.place.name}`
  expect(await listEventData(all, 'release.published')).toEqual([{ repository, releaseId: body.releaseId }])
  await lab.withdraw(body.releaseId, 'Wrong.')
  const withdrawn = [{ repository, releaseId: body.releaseId, reason: 'Wrong.' }]
  expect(await listEventData(all, 'release.withdrawn')).toEqual(withdrawn)
  expect(await listEventData(some, 'release.withdrawn')).toEqual(withdrawn)
  expect(await listEventData(some, 'release.published')).toEqual([])
})
