import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { type ComparisonLab, createScriptedEngine, openComparisonLab, QUICK } from '../../test/support/comparisons.ts'
import { removeBenchmark } from '../benchmarks/schema.ts'
import { type AuditEvent, listAudit } from '../workspaces/schema.ts'
import { inBenchmark } from './schema.ts'

let app: TestApp
let lab: ComparisonLab
beforeAll(async () => {
  app = await testApp()
  lab = await openComparisonLab(app)
})
afterAll(async () => app[Symbol.asyncDispose]())

test('a comparison runs from request to results', async () => {
  const created = await lab.create()
  expect(created).toMatchObject({
    status: 202,
    body: { state: 'submitting', frozen: null, trials: { total: 0 }, scope: { kind: 'benchmark', ...QUICK } },
  })
  expect(created.body).not.toHaveProperty('submissionError')
  await lab.work()
  const done = await lab.read(created.body.id)
  expect(done).toMatchObject({
    state: 'completed',
    frozen: { tasks: 5 },
    trials: { total: 10, queued: 0, running: 0, passed: 5, failed: 5, errored: 0, canceled: 0, reused: 0 },
    costUsd: 0,
    frontier: ['reference|oracle|none'],
    settings: [
      { id: 'reference|oracle|none', tasks: 5, passed: 5, accuracy: 100, costPerTaskUsd: 0, isolation: 'none' },
      { id: 'reference|nop|none', tasks: 5, passed: 0, accuracy: 0, costPerTaskUsd: 0 },
    ],
  })
  expect(done.settings[0].stats.ci95).toMatchObject({ high: 100, tasks: 5, trials: 5 })
})

test('a comparison runs only the tasks that it names, and refuses names that do not exist', async () => {
  const { body: options } = await app.call(inBenchmark.options, { params: QUICK })
  const [first, second] = options.tasks.map(({ name }: { name: string }) => name)
  const { body } = await lab.create({ taskNames: [second, first] })
  await lab.work()
  const done = await lab.read(body.id)
  expect(done).toMatchObject({ state: 'completed', frozen: { tasks: 2 }, trials: { total: 4 } })
  const whole = await lab.create()
  await lab.work()
  expect(done.frozen.digest).not.toBe((await lab.read(whole.body.id)).frozen.digest)
  const refused = await lab.create({ taskNames: [first, first, `${first}x`] })
  expect(refused).toMatchObject({
    status: 422,
    body: {
      errors: [
        { pointer: '/taskNames/1', code: 'duplicate_task' },
        { pointer: '/taskNames/2', code: 'unknown_task', message: expect.stringContaining(`Did you mean ${first}?`) },
      ],
    },
  })
})

test('a timeout multiplier is part of the setting, reaches the trial and separates its results', async () => {
  const engine = createScriptedEngine()
  const own = await openComparisonLab(app, engine)
  const model = { catalogId: 'reference', credentialId: own.reference, harnesses: ['oracle'] }
  const models = [model, { ...model, timeoutMultiplier: 2.5 }]
  const { body } = await own.create({ models })
  await own.work()
  const done = await own.read(body.id)
  expect(done.settings).toMatchObject([
    { id: 'reference|oracle|none', passed: 5 },
    { id: 'reference|oracle|none|timeouts*2.5', timeoutMultiplier: 2.5, passed: 5 },
  ])
  expect(done.settings[0]).not.toHaveProperty('timeoutMultiplier')
  const multipliers = engine.orders.map(({ timeoutMultiplier }) => timeoutMultiplier).sort()
  expect(multipliers).toEqual([...Array(5).fill(2.5), ...Array(5).fill(null)])
  const slower = await own.create({ models: [{ ...model, timeoutMultiplier: 3 }], skipCompleted: true })
  await own.work()
  expect(await own.read(slower.body.id)).toMatchObject({ trials: { reused: 0, passed: 5 } })
  expect(await own.create({ models: [{ ...model, timeoutMultiplier: 0 }] })).toMatchObject({ status: 422 })
  const same = await own.create({ models: [model, { ...model, timeoutMultiplier: 1 }] })
  expect(same.body.errors).toMatchObject([{ code: 'duplicate_setting' }])
})

test('repeating a request returns the same comparison; a different body or scope is rejected', async () => {
  const body = lab.body()
  const ask = (over: object = {}) => app.call(inBenchmark.create, { params: QUICK, body: { ...body, ...over } })
  const answers = await Promise.all(Array.from({ length: 8 }, () => ask()))
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(202))
  await lab.work()
  const levels = [{ ...body.models[0], reasoningLevel: 'none', credentialId: lab.reference.toUpperCase() }]
  const spelledOut = await ask({ id: body.id.toUpperCase(), models: levels, attempts: 1, skipCompleted: false })
  expect(spelledOut).toMatchObject({ status: 202, body: { id: body.id, state: 'completed', trials: { total: 10 } } })
  expect(await ask({ attempts: 2 })).toMatchObject({ status: 409, body: { code: 'id_reused' } })
  const elsewhere = await app.call(inBenchmark.create, { params: { ...QUICK, dataset: 'polyglot' }, body })
  expect(elsewhere).toMatchObject({ status: 409, body: { code: 'id_reused' } })
  const { rows } = await app.database.pool.query('select count(*)::int as n from comparisons where id = $1', [body.id])
  expect(rows[0].n).toBe(1)
})

test("two workspaces can use the same id without seeing each other's comparison", async () => {
  const other = await app.otherWorkspace('twin')
  const { body } = await lab.create()
  const there = { params: { ...QUICK, org: other.login, comparisonId: body.id }, key: other.key }
  for (const endpoint of [
    inBenchmark.read,
    inBenchmark.resume,
    inBenchmark.pause,
    inBenchmark.cancel,
    inBenchmark.matrix,
    inBenchmark.events,
  ])
    expect((await app.call(endpoint, there)).status).toBe(404)
  await lab.cancel(body.id)
})

test('canceling takes effect immediately and is idempotent; resuming continues the canceled trials', async () => {
  const { body } = await lab.create()
  expect((await lab.cancel(body.id)).body).toMatchObject({ state: 'canceled', trials: { total: 0 } })
  expect((await lab.resume(body.id)).body.state).toBe('submitting')
  await lab.work()
  expect((await lab.read(body.id)).state).toBe('completed')
  expect((await lab.cancel(body.id)).body.state).toBe('completed')

  const engine = createScriptedEngine()
  const halfway = await openComparisonLab(app, {
    ...engine,
    run: async (order, watch) => {
      if (engine.orders.length === 3) await halfway.cancel(second.body.id)
      return engine.run(order, watch)
    },
  })
  const second = await halfway.create()
  await halfway.work()
  const canceled = await halfway.read(second.body.id)
  expect(canceled).toMatchObject({ state: 'canceled', trials: { total: 10, queued: 0, running: 0, canceled: 7 } })
  expect((await halfway.cancel(second.body.id)).body).toEqual(canceled)
  expect((await halfway.resume(second.body.id)).body).toMatchObject({ state: 'running', trials: { queued: 7 } })
  await lab.work()
  expect(await halfway.read(second.body.id)).toMatchObject({ state: 'completed', trials: { passed: 5, failed: 5 } })
})

test('pausing lets running trials end and starts no other one until the comparison is resumed', async () => {
  const engine = createScriptedEngine()
  const paused = await openComparisonLab(app, {
    ...engine,
    run: async (order, watch) => {
      if (engine.orders.length === 3) await Promise.all([paused.pause(body.id), paused.pause(body.id)])
      return engine.run(order, watch)
    },
  })
  const { body } = await paused.create()
  expect(await paused.pause(body.id)).toMatchObject({ status: 409, body: { code: 'comparison_not_running' } })
  await paused.work()
  const status = await paused.read(body.id)
  expect(status).toMatchObject({ state: 'paused', pause: { reason: 'requested' }, trials: { running: 0, canceled: 0 } })
  expect(status.trials.passed + status.trials.failed).toBe(engine.orders.length)
  expect(status.trials.queued).toBe(10 - engine.orders.length)
  expect((await paused.pause(body.id)).body).toEqual(status)
  const { body: audit } = await app.call(listAudit)
  expect(audit.events.map(({ action, subject }: AuditEvent) => `${action} ${subject}`)).toContain(
    `comparison.paused ${body.id}`,
  )
  await paused.resume(body.id)
  await paused.work()
  expect(await paused.read(body.id)).toMatchObject({ state: 'completed', trials: { passed: 5, failed: 5 } })
  expect(await paused.pause(body.id)).toMatchObject({ status: 409 })
})

test('every operation of a comparison answers with its declared shape', async () => {
  const { body } = await lab.create()
  await lab.work()
  const [first] = await lab.trials(body.id, { setting: 'reference|oracle|none', limit: '1' })
  expect(first).toMatchObject({
    task: { name: 'assay/earn-partial-credit' },
    settingId: 'reference|oracle|none',
    attempt: 1,
    state: 'passed',
    class: 'verified',
    reward: 1,
    verifyMode: 'workspace',
    isolation: 'none',
    retries: 0,
    costUsd: 0,
    rewards: { reward: 1 },
    artifacts: [{ name: 'agent.log', mediaType: 'text/plain; charset=utf-8' }],
  })
  expect(first.timings).toMatchObject({ prepare: 0.1, agent: 0.2, verify: 0.3, total: 0.6 })
  const at = lab.at(body.id, { trialId: first.id })
  expect((await app.call(inBenchmark.trial, at)).body).toEqual({ ...first, spoiled: [] })
  expect((await app.call(inBenchmark.calls, at)).body).toEqual({ calls: [], nextCursor: null })
  const matrix = (await app.call(inBenchmark.matrix, lab.at(body.id))).body
  expect(matrix.tasks[0]).toEqual({ name: 'assay/earn-partial-credit', cells: 'pf' })
  const { evaluations } = (await app.call(inBenchmark.list, { params: QUICK })).body
  expect(await lab.read(body.id)).toMatchObject(evaluations[0])
  const { tasks } = (await app.call(inBenchmark.options, { params: QUICK })).body
  expect(tasks).toHaveLength(5)
  const page = await app.call(inBenchmark.list, { params: QUICK, query: { limit: '1' } })
  const next = await app.call(inBenchmark.list, { params: QUICK, query: { limit: '1', cursor: page.body.nextCursor } })
  expect(next.body.evaluations[0].id).toBe(evaluations[1].id)
  for (const trialId of ['00000000-0000-4000-8000-000000000000', first.id.replace(/.$/, 'f')])
    expect((await app.call(inBenchmark.trial, lab.at(body.id, { trialId }))).status).toBe(404)
})

test('trials are listed page by page and can be filtered', async () => {
  const { body } = await lab.create({ attempts: 3 })
  await lab.work()
  const ids = new Set<string>()
  let cursor: string | null = '0'
  while (cursor !== null) {
    const query: Record<string, string> = ids.size === 0 ? { limit: '7' } : { limit: '7', cursor }
    const page: { trials: { id: string }[]; nextCursor: string | null } = (
      await app.call(inBenchmark.trials, { ...lab.at(body.id), query })
    ).body
    for (const { id } of page.trials) ids.add(id)
    cursor = page.nextCursor
  }
  expect(ids.size).toBe(30)
  const some = await lab.trials(body.id, { task: 'assay/pack-it-up', state: 'failed', class: 'verified' })
  expect(some.map(({ attempt }: { attempt: number }) => attempt)).toEqual([1, 2, 3])
  expect(await lab.trials(body.id, { task: 'none' })).toEqual([])
  const matrix = (await app.call(inBenchmark.matrix, lab.at(body.id))).body
  expect(matrix).toMatchObject({ attempts: 3, settings: ['reference|oracle|none', 'reference|nop|none'] })
  expect(matrix.tasks[0].cells).toBe('pppfff')
})

test('a quote contains the number of trials, their cost and the smallest detectable difference', async () => {
  const { models } = lab.body()
  const quote = (over: object) => app.call(inBenchmark.quote, { params: QUICK, body: { models, ...over } })
  const small = (await quote({})).body
  expect(small).toMatchObject({ tasks: 5, settings: 2, trials: 10, costUsd: { low: 0, expected: 0, high: 0 } })
  const large = (await quote({ attempts: 10 })).body
  expect(large.trials).toBe(100)
  expect(large.smallestDifference).toBeLessThan(small.smallestDifference)
  expect((await quote({ models: [] })).status).toBe(422)
  const nowhere = { ...QUICK, dataset: 'none' }
  for (const body of [{ models }, { noSuchField: 1 }])
    expect(await app.call(inBenchmark.quote, { params: nowhere, body: body as never })).toMatchObject({
      status: 404,
      body: { code: 'benchmark_not_added' },
    })
})

test('a quote accepts the body of a create request and rejects what creating rejects', async () => {
  const everything = { attempts: 2, skipCompleted: true, budgetUsd: 1, trialBudgetUsd: 0.5, concurrency: 3 }
  const body = lab.body(everything)
  const quoted = await app.call(inBenchmark.quote, { params: QUICK, body })
  expect(quoted).toMatchObject({ status: 200, body: { tasks: 5, trials: 20 } })
  for (const [field, value] of Object.entries({ id: 'x', sandbox: '', budgetUsd: -1, concurrency: 0, tasks: [] })) {
    const wrong = { ...body, [field]: value }
    const [quote, create] = [
      await app.call(inBenchmark.quote, { params: QUICK, body: wrong as never }),
      await app.call(inBenchmark.create, { params: QUICK, body: wrong as never }),
    ]
    expect([quote.status, quote.body.errors]).toEqual([422, create.body.errors])
  }
})

test('a cost per task has six decimals, rounded half up, in the status and in the list', async () => {
  await using own = await testApp()
  const here = await openComparisonLab(own)
  const { body } = await here.create()
  await here.work()
  for (const [micros, usd] of [
    [12, 0.000002],
    [13, 0.000003],
    [7_000_001, 1.4],
    [7_000_003, 1.400001],
  ]) {
    await own.database.pool.query(
      `update trial_counts set tasks_micros = case when part = (
         select min(part) from trial_counts as all_counts where all_counts.setting = trial_counts.setting
       ) then $1::bigint else 0 end`,
      [micros],
    )
    expect((await here.read(body.id)).settings.map(costPerTask)).toEqual([usd, usd])
    const [listed] = (await own.call(inBenchmark.list, { params: QUICK })).body.evaluations
    expect(listed.settings.map(costPerTask)).toEqual([usd, usd])
  }
})

const costPerTask = ({ costPerTaskUsd }: { costPerTaskUsd: number }) => costPerTaskUsd

test('a comparison remains readable after its benchmark is removed', async () => {
  await using own = await testApp()
  const here = await openComparisonLab(own)
  const { body } = await here.create()
  await own.call(removeBenchmark, { params: QUICK })
  await here.work()
  expect((await here.read(body.id)).state).toBe('completed')
  expect((await own.call(inBenchmark.list, { params: QUICK })).body.evaluations).toHaveLength(1)
  expect((await here.resume(body.id)).status).toBe(202)
  expect(await here.create()).toMatchObject({ status: 404, body: { code: 'benchmark_not_added' } })
  expect((await own.call(inBenchmark.options, { params: QUICK })).body.code).toBe('benchmark_not_added')
})

test('the catalog of an unknown scope is not found', async () => {
  const nowhere = { params: { ...QUICK, dataset: 'none' } }
  for (const endpoint of [inBenchmark.list, inBenchmark.catalog, inBenchmark.options])
    expect((await app.call(endpoint, nowhere)).status).toBe(404)
})
