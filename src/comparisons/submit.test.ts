import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { type ComparisonLab, createScriptedEngine, openComparisonLab } from '../../test/support/comparisons.ts'
import { type PackageRegistryServer, startPackageRegistry } from '../../test/support/package-registry.ts'
import { addBenchmark } from '../benchmarks/schema.ts'
import { inBenchmark } from './schema.ts'
import { completeAllDone, STEPS } from './state.ts'

let app: TestApp
let registry: PackageRegistryServer
beforeAll(async () => {
  registry = await startPackageRegistry()
  app = await testApp({
    ASSAY_REGISTRIES: 'samples,harbor',
    ASSAY_HARBOR_URL: registry.url,
    ASSAY_HARBOR_PUBLIC_KEY: registry.publicKey,
  })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await registry[Symbol.asyncDispose]()
})

async function publish(name: string, tasks: string[]) {
  const versions = []
  for (const task of tasks) versions.push(await registry.rows.publishTask({ name: task }))
  const published = await registry.rows.publishDataset({ name, tasks: versions })
  await app.call(addBenchmark, { body: { reference: name } })
  return published
}

const here = (dataset: string) => ({ datasetOrg: 'lab', dataset })

async function createOn(lab: ComparisonLab, dataset: string) {
  const { body } = await app.call(inBenchmark.create, { params: here(dataset), body: lab.body() })
  const at = { params: { ...here(dataset), comparisonId: body.id } }
  return {
    read: async () => (await app.call(inBenchmark.read, at)).body,
    resume: async () => (await app.call(inBenchmark.resumeShort, at)).body,
  }
}

test('an unavailable registry fails the submission with its own code, and a resume continues', async () => {
  await publish('lab/away', ['lab/a1', 'lab/a2'])
  const lab = await openComparisonLab(app)
  const comparison = await createOn(lab, 'away')
  registry.misbehave({ on: 'dist.tar.gz', times: 1, status: 429, headers: { 'retry-after': '3600' } })
  await lab.work()
  const failed = await comparison.read()
  expect(failed).toMatchObject({
    state: 'submission_failed',
    submissionError: { code: 'registry_unavailable', retryable: true },
    trials: { total: 0 },
  })
  const resumed = await comparison.resume()
  expect(resumed.state).toBe('submitting')
  expect(resumed).not.toHaveProperty('submissionError')
  await lab.work()
  expect(await comparison.read()).toMatchObject({ state: 'completed', frozen: { tasks: 2 }, trials: { total: 4 } })
})

test('content that differs from what was checked never runs', async () => {
  const version = await publish('lab/changed', ['lab/c1', 'lab/c2'])
  const lab = await openComparisonLab(app)
  const comparison = await createOn(lab, 'changed')
  const [first, second] = version.tasks.map((task) => task.archive_path)
  const before = registry.rows.objects.get(first ?? '')
  registry.rows.objects.set(first ?? '', registry.rows.objects.get(second ?? '') ?? Buffer.alloc(0))
  await lab.work()
  expect(await comparison.read()).toMatchObject({
    state: 'submission_failed',
    submissionError: { code: 'dataset_changed', retryable: false },
  })
  registry.rows.objects.set(first ?? '', before ?? Buffer.alloc(0))
  await comparison.resume()
  await lab.work()
  expect((await comparison.read()).state).toBe('completed')
})

test('a submission fails until a worker provides the sandbox', async () => {
  await using own = await testApp()
  const lab = await openComparisonLab(own)
  await own.database.pool.query('delete from sandbox_offers')
  const { body } = await lab.create()
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({
    state: 'submission_failed',
    submissionError: { code: 'sandbox_unavailable', retryable: true },
    frozen: { tasks: 5 },
    trials: { total: 10, queued: 10 },
  })
  await own.database.pool.query(`insert into sandbox_offers values (gen_random_uuid(), 'local', true, 'none', '')`)
  await lab.resume(body.id)
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { total: 10, passed: 5 } })
})

test('a submission without a worker ends as sandbox_unavailable, never as an internal error', async () => {
  await using own = await testApp()
  const { waits } = own.tools
  const lab = await openComparisonLab(own, createScriptedEngine(), { waits: { ...waits, workerMs: 3_600_000 } })
  const { pool } = own.database
  await pool.query('delete from sandbox_offers')
  const { body } = await lab.create()
  for (let looks = 0; looks < 8; looks += 1) {
    await lab.work()
    expect(await lab.read(body.id)).toMatchObject({ state: 'submitting', frozen: { tasks: 5 } })
    // What the queue would wait for.
    await pool.query('update jobs set run_at = now() where run_at > now() and every_seconds is null')
  }
  await pool.query(`update comparisons set submit_asked_at = now() - interval '2 hours'`)
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({
    state: 'submission_failed',
    submissionError: { code: 'sandbox_unavailable', retryable: true },
  })
})

test('a comparison that is canceled while its trials are enqueued stays canceled', async () => {
  await using own = await testApp()
  const lab = await openComparisonLab(own)
  const { pool } = own.database
  const { body } = await lab.create({ concurrency: 2 })
  const blocker = await pool.connect()
  // The submission waits for this row after it has read the comparison.
  await blocker.query(`begin; insert into job_limits (key, slots) select 'comparison ' || key, 1 from comparisons`)
  const working = lab.work()
  await vi.waitFor(async () => {
    const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
    expect((await pool.query(waiting)).rowCount).toBe(1)
  })
  expect((await lab.cancel(body.id)).body.state).toBe('canceled')
  await blocker.query('rollback')
  blocker.release()
  await working
  expect(await lab.read(body.id)).toMatchObject({ state: 'canceled', trials: { total: 10, canceled: 10 } })
})

test('a comparison whose trials are all reused needs no worker', async () => {
  await using own = await testApp()
  const lab = await openComparisonLab(own)
  await lab.create()
  await lab.work()
  await own.database.pool.query('delete from sandbox_offers')
  const { body } = await lab.create({ skipCompleted: true })
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { total: 10, reused: 10 } })
})

test('a full database disk fails the submission with disk_full', async () => {
  await using own = await testApp()
  const full = Object.assign(new Error('could not extend file: No space left on device'), { code: '53100' })
  let isFull = true
  const step = (name: string) => {
    if (isFull && name === 'submit.inserted') throw new Error('the plan could not be stored', { cause: full })
  }
  const lab = await openComparisonLab(own, createScriptedEngine(), { step })
  const { body } = await lab.create()
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({
    state: 'submission_failed',
    submissionError: { code: 'disk_full', retryable: true },
  })
  isFull = false
  await lab.resume(body.id)
  await lab.work()
  expect((await lab.read(body.id)).state).toBe('completed')
})

/** Breaks once, at the n-th step. */
function breaksAt(place: number) {
  const passed: string[] = []
  const step = (name: string): void => {
    passed.push(name)
    if (passed.length === place) throw new Error(`broken at ${name}`)
  }
  return { step, passed }
}

test('a comparison interrupted between any two writes ends the same, and nothing runs or counts twice', async () => {
  await using own = await testApp()
  const whole = breaksAt(-1)
  const calm = await openComparisonLab(own, createScriptedEngine(), { step: whole.step })
  await calm.create()
  await calm.work()
  expect([...new Set(whole.passed)].toSorted()).toEqual(STEPS.toSorted())
  const places = [...new Set(whole.passed)].flatMap((name) => [
    whole.passed.indexOf(name) + 1,
    whole.passed.lastIndexOf(name) + 1,
  ])
  for (const place of new Set(places)) {
    const broken = breaksAt(place)
    const engine = createScriptedEngine()
    const lab = await openComparisonLab(own, engine, { step: broken.step })
    const { body } = await lab.create()
    await lab.work()
    // What the queue would wait for.
    await own.database.pool.query('update jobs set run_at = now() where run_at > now() and every_seconds is null')
    await lab.work()
    await completeAllDone(own.database.db)
    const at = broken.passed[place - 1]
    expect(await lab.read(body.id), at).toMatchObject({
      state: 'completed',
      trials: { total: 10, queued: 0, running: 0, passed: 5, failed: 5, errored: 0, canceled: 0 },
      settings: [
        { tasks: 5, passed: 5 },
        { tasks: 5, passed: 0 },
      ],
    })
    const again = ['trial.ran', 'trial.stored'].includes(at ?? '') ? 1 : 0
    expect(engine.orders, at).toHaveLength(10 + again)
    const { rows } = await own.database.pool.query('select count(*)::int as n from jobs where every_seconds is null')
    expect(rows[0].n, at).toBe(0)
  }
})

test('counts match the trials after any history', async () => {
  await using own = await testApp()
  const lab = await openComparisonLab(own)
  const { body } = await lab.create({ attempts: 3 })
  await lab.work()
  const { rows } = await own.database.pool.query(
    `select setting, state, count(*)::int as n from trials group by 1, 2 order by 1, 2`,
  )
  expect(rows).toEqual([
    { setting: 0, state: 'passed', n: 15 },
    { setting: 1, state: 'failed', n: 15 },
  ])
  const status = await lab.read(body.id)
  expect(status.settings.map(({ trials }: { trials: object }) => trials)).toMatchObject([
    { passed: 15 },
    { failed: 15 },
  ])
})

test('comparisons take turns: a small one does not wait for an earlier large one', async () => {
  await using own = await testApp()
  const engine = createScriptedEngine()
  const lab = await openComparisonLab(own, engine)
  const [model] = lab.body().models
  await lab.create({ attempts: 10, models: [{ ...model, harnesses: ['oracle'] }] })
  await lab.create({ models: [{ ...model, harnesses: ['nop'] }] })
  await lab.work()
  const order = engine.orders.map(({ harness }) => harness)
  expect(order).toHaveLength(55)
  expect(order.lastIndexOf('nop')).toBeLessThan(12)
})
