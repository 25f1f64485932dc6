import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../../test/support/app.ts'
import { type ComparisonLab, openComparisonLab } from '../../../test/support/comparisons.ts'
import { insertComparison, openReleaseLab, type SettingFixture } from '../../../test/support/releases.ts'
import { inBenchmark, inRepository } from '../schema.ts'

let app: TestApp
let repository: Awaited<ReturnType<typeof openReleaseLab>>
let benchmark: ComparisonLab

beforeAll(async () => {
  app = await testApp()
  repository = await openReleaseLab(app)
  benchmark = await openComparisonLab(app)
})
afterAll(async () => app[Symbol.asyncDispose]())

const TASKS = 24
const GOOD = 'acme/good|mini|high'
const CHEAP = 'acme/cheap|mini|low'
const BAD = 'acme/bad|mini|low'

/** `passed` tasks of 24, the first ones. */
const solved = (passed: number): string => 'p'.repeat(passed) + 'f'.repeat(TASKS - passed)

/** Stores a finished comparison on 24 tasks of the repository. Returns the parameters of its path. */
async function stored(...settings: SettingFixture[]) {
  const digests = Array.from({ length: TASKS }, (_, task) => repository.digests[task % repository.digests.length] ?? '')
  const key = await insertComparison(app.database.pool, { ...repository.where, digests }, settings)
  const { rows } = await app.database.pool.query('select id from comparisons where key = $1', [key])
  return { key, params: { ...repository.place, comparisonId: rows[0].id as string } }
}

const threeSettings = () =>
  stored(
    { id: GOOD, cells: solved(18), micros: 840_000 },
    { id: CHEAP, cells: solved(17), micros: 420_000 },
    { id: BAD, cells: solved(1), micros: 100_000 },
  )

test('the status of a repository comparison has statistics and an answer', async () => {
  const { params } = await threeSettings()
  const { status, body } = await app.call(inRepository.read, { params })
  expect(status).toBe(200)
  expect(body.answer).toEqual({
    state: 'conclusive',
    recommended: CHEAP,
    alternatives: [GOOD],
    text: expect.stringContaining('Use acme/cheap with mini at low: it solved 17 of 24 tasks for $0.42 each.'),
    smallestVisibleDifference: expect.closeTo(30.99, 1),
  })
  const [good, , bad] = body.settings
  expect(good.stats).toMatchObject({
    rank: { best: 1, worst: 2 },
    frontierProbability: expect.any(Number),
    costCi95: { low: 0.84, high: 0.84, level: 0.95, method: 'johnson-t', tasks: 24 },
    methods: { rank: 'holm-paired-t', frontierProbability: 'task-bootstrap-1000-sfc32' },
  })
  expect(bad.stats.rank).toEqual({ best: 3, worst: 3 })
})

test('pairs are listed from both sides, all or against a baseline', async () => {
  const { params } = await threeSettings()
  const all = await app.call(inRepository.pairs, { params })
  expect(all.body.pairs.map(({ a, b, verdict }: { a: string; b: string; verdict: string }) => [a, b, verdict])).toEqual(
    [
      [GOOD, CHEAP, 'cannot_tell'],
      [GOOD, BAD, 'better'],
      [CHEAP, BAD, 'better'],
    ],
  )
  const { body } = await app.call(inRepository.pairs, { params, query: { baseline: CHEAP } })
  expect(body.pairs).toMatchObject([
    {
      a: GOOD,
      b: CHEAP,
      tasks: 24,
      wonByA: 1,
      wonByB: 0,
      both: 17,
      neither: 6,
      difference: { points: expect.closeTo(4.17, 1), low: expect.closeTo(-10.1, 1), high: expect.closeTo(17.7, 1) },
      costDifferenceUsd: { mean: 0.42, low: 0.42, high: 0.42 },
      verdict: 'cannot_tell',
    },
    { a: BAD, b: CHEAP, wonByA: 0, wonByB: 16, verdict: 'worse' },
  ])
})

test('a pair lists the outcome of each shared task', async () => {
  const { params } = await threeSettings()
  const { status, body } = await app.call(inRepository.pair, { params: { ...params, a: CHEAP, b: GOOD } })
  expect(status).toBe(200)
  expect(body).toMatchObject({ a: CHEAP, b: GOOD, wonByA: 0, wonByB: 1, tasks: 24 })
  expect(body.outcomes).toHaveLength(24)
  expect(body.outcomes[17]).toEqual({
    task: { name: 'task-18', digest: expect.stringMatching(/^sha256:/) },
    outcome: 'wonByB',
    a: { passed: false, trials: 1, passes: 0, costUsd: 0.42 },
    b: { passed: true, trials: 1, passes: 1, costUsd: 0.84 },
  })
})

test('settings that share no scored task are rejected with a pointer', async () => {
  const { params } = await stored(
    { id: GOOD, cells: `${'p'.repeat(12)}${'-'.repeat(12)}` },
    { id: BAD, cells: `${'-'.repeat(12)}${'f'.repeat(12)}` },
  )
  const pair = await app.call(inRepository.pair, { params: { ...params, a: GOOD, b: BAD } })
  expect(pair).toMatchObject({
    status: 422,
    body: { code: 'no_shared_tasks', errors: [{ pointer: '/path/b', code: 'no_shared_tasks' }] },
  })
  const list = await app.call(inRepository.pairs, { params, query: { baseline: GOOD } })
  expect(list).toMatchObject({
    status: 422,
    body: { code: 'no_shared_tasks', errors: [{ pointer: '/query/baseline' }] },
  })
  const self = await app.call(inRepository.pair, { params: { ...params, a: GOOD, b: GOOD } })
  expect(self).toMatchObject({ status: 422, body: { errors: [{ pointer: '/path/b' }] } })
  expect((await app.call(inRepository.pairs, { params })).body.pairs).toMatchObject([{ tasks: 0, difference: null }])
})

test('unknown settings and comparisons are not found, and an unknown baseline is invalid', async () => {
  const { params } = await threeSettings()
  expect((await app.call(inRepository.pair, { params: { ...params, a: GOOD, b: 'no|such|one' } })).status).toBe(404)
  expect(await app.call(inRepository.pairs, { params, query: { baseline: 'no|such|one' } })).toMatchObject({
    status: 422,
    body: { errors: [{ pointer: '/query/baseline', code: 'unknown_setting' }] },
  })
  const other = await app.otherWorkspace('elsewhere')
  const there = { params: { ...params, org: other.login }, key: other.key }
  expect((await app.call(inRepository.pairs, there)).status).toBe(404)
  expect((await app.call(inRepository.pair, { ...there, params: { ...there.params, a: GOOD, b: BAD } })).status).toBe(
    404,
  )
})

test('a changed result changes the statistics at the next read', async () => {
  const { key, params } = await threeSettings()
  const read = async () => (await app.call(inRepository.pair, { params: { ...params, a: GOOD, b: CHEAP } })).body
  expect(await read()).toMatchObject({ wonByA: 1, both: 17, tasks: 24 })
  const update = 'update trials set changed = pg_current_xact_id()'
  await app.database.pool.query(`${update}, state = 'failed' where comparison = $1 and setting = 1 and task < 10`, [
    key,
  ])
  expect(await read()).toMatchObject({ wonByA: 11, both: 7, tasks: 24 })
  await app.database.pool.query(`${update}, voided_at = now() where comparison = $1 and setting = 0 and task = 0`, [
    key,
  ])
  expect(await read()).toMatchObject({ wonByA: 10, both: 7, tasks: 23 })
})

test('a large comparison is computed in a thread with the same result', async () => {
  const cells = 'pf'.repeat(300)
  const digests = Array.from({ length: 600 }, () => repository.digests[0] ?? '')
  const key = await insertComparison(app.database.pool, { ...repository.where, digests }, [
    { id: GOOD, cells },
    { id: BAD, cells: 'f'.repeat(600) },
  ])
  const { rows } = await app.database.pool.query('select id from comparisons where key = $1', [key])
  const params = { ...repository.place, comparisonId: rows[0].id }
  const { body } = await app.call(inRepository.pairs, { params })
  expect(body.pairs).toMatchObject([{ tasks: 600, wonByA: 300, neither: 300, verdict: 'better' }])
})

test('a benchmark comparison collects first, and its last event carries the answer', async () => {
  const { body: created } = await benchmark.create()
  const before = await benchmark.read(created.id)
  expect(before.answer).toMatchObject({ state: 'collecting', recommended: null, smallestVisibleDifference: null })
  await benchmark.work()
  const done = await benchmark.read(created.id)
  expect(done.answer).toMatchObject({
    state: 'inconclusive',
    recommended: null,
    text: 'Only reference settings were compared, so there is nothing to recommend: Reference with oracle solved 5 of 5 tasks; Reference with nop solved 0 of 5 tasks.',
  })
  const path = `/api/orgs/local/benchmarks/assay/quick/evaluations/comparisons/${created.id}/events`
  const { text } = await app.fetch(path, { headers: { authorization: `Bearer ${app.adminKey}` } })
  expect(text).toContain(JSON.stringify(done.answer))
  const { body } = await app.call(inBenchmark.pairs, benchmark.at(created.id))
  expect(body.pairs).toMatchObject([{ a: 'reference|oracle|none', b: 'reference|nop|none', wonByA: 5, tasks: 5 }])
  const { body: list } = await app.call(inBenchmark.list, { params: benchmark.params })
  expect(list.evaluations[0]).not.toHaveProperty('answer')
})

test('two comparisons of the same settings are compared by task', async () => {
  const old = await stored(
    { id: GOOD, cells: solved(20), micros: 500_000, version: '1' },
    { id: CHEAP, cells: solved(10) },
    { id: 'acme/v1|mini|low', cells: solved(3) },
  )
  const current = await stored(
    { id: CHEAP, cells: solved(10) },
    { id: GOOD, cells: `f${solved(5).slice(1)}`, micros: 400_000, version: '2' },
    { id: 'acme/v2|mini|low', cells: solved(4) },
  )
  const params = { ...current.params, baseId: old.params.comparisonId }
  const { status, body } = await app.call(inRepository.diff, { params })
  expect(status).toBe(200)
  expect(body).toMatchObject({
    base: old.params.comparisonId,
    comparison: current.params.comparisonId,
    tasks: { shared: 24, onlyInBase: 0, onlyInComparison: 0 },
    settings: [
      { base: CHEAP, setting: CHEAP, tasks: 24, fixed: 0, broken: 0, changed: [], verdict: 'cannot_tell' },
      {
        ...{ base: GOOD, setting: GOOD, baseHarnessVersion: '1', harnessVersion: '2', fixed: 0, broken: 16 },
        ...{ verdict: 'worse', costDifferenceUsd: { mean: -0.1 }, difference: { points: expect.closeTo(-66.7, 1) } },
      },
      { base: 'acme/v1|mini|low', setting: 'acme/v2|mini|low', fixed: 1, broken: 0, verdict: 'cannot_tell' },
    ],
    unmatched: { base: [], comparison: [] },
  })
  expect(body.settings[1].changed[0]).toMatchObject({
    change: 'broken',
    before: { passed: true, costUsd: 0.5 },
    after: { passed: false, costUsd: 0.4 },
  })
})

test('comparisons without a common setting or in another scope are not compared', async () => {
  const one = await stored({ id: GOOD, cells: solved(2) }, { id: CHEAP, cells: solved(2) })
  const other = await stored({ id: BAD, cells: solved(2) })
  const unshared = await app.call(inRepository.diff, {
    params: { ...one.params, baseId: other.params.comparisonId },
  })
  expect(unshared).toMatchObject({
    status: 422,
    body: { code: 'no_shared_tasks', errors: [{ pointer: '/path/baseId' }] },
  })
  const { body: elsewhere } = await benchmark.create()
  expect((await app.call(inRepository.diff, { params: { ...one.params, baseId: elsewhere.id } })).status).toBe(404)
})

test('a benchmark comparison without results is rejected with a pointer', async () => {
  const [one, other] = [(await benchmark.create()).body, (await benchmark.create()).body]
  const params = { ...benchmark.params, comparisonId: one.id }
  const [a, b] = one.settings.map(({ id }: { id: string }) => id)
  expect(await app.call(inBenchmark.pair, { params: { ...params, a, b } })).toMatchObject({
    status: 422,
    body: { code: 'no_shared_tasks', errors: [{ pointer: '/path/b' }] },
  })
  expect(await app.call(inBenchmark.pairs, { params, query: { baseline: a } })).toMatchObject({
    status: 422,
    body: { code: 'no_shared_tasks', errors: [{ pointer: '/query/baseline' }] },
  })
  expect(await app.call(inBenchmark.diff, { params: { ...params, baseId: other.id } })).toMatchObject({
    status: 422,
    body: { code: 'no_shared_tasks', errors: [{ pointer: '/path/baseId' }] },
  })
})
