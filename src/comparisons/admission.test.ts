import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { type ComparisonLab, createScriptedEngine, openComparisonLab } from '../../test/support/comparisons.ts'
import { drain } from '../../test/support/jobs/drain.ts'
import { sandboxJobs, serviceJobs } from '../app.ts'
import { newId } from '../platform/ids.ts'
import { claim, startWorker } from '../platform/jobs/worker.ts'
import type { TrialRunRequest } from './trials/engine.ts'
import { limitCredentials } from './trials/queue/queue.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

/** The same service, as another workspace sees it. */
async function another(login: string): Promise<TestApp> {
  const { key } = await app.otherWorkspace(login)
  const call: TestApp['call'] = (endpoint, options = {}) =>
    app.call(endpoint, { ...options, key, params: Object.assign({}, options.params, { org: login }) })
  return { ...app, call }
}

/** Until its trials wait, and none of them runs. */
async function submitted(lab: ComparisonLab, options: object): Promise<string> {
  const { body } = await lab.create(options)
  await drain(
    app.database,
    serviceJobs(lab.tools).filter(({ type }) => type === 'comparison.submit'),
  )
  expect(await lab.read(body.id)).toMatchObject({ state: 'running' })
  return body.id
}

type TrialJob = {
  id: string
  fair_group: string
  limit_keys: string[]
  memory_mb: number
  payload: { comparison: number }
}

async function jobsOf(comparison: string): Promise<TrialJob[]> {
  const { rows } = await app.database.pool.query<TrialJob>(
    `select jobs.id, fair_group, limit_keys, memory_mb, payload from jobs
     join comparisons on key = (payload ->> 'comparison')::bigint where comparisons.id = $1 order by run_at`,
    [comparison],
  )
  return rows
}

const trialClaim = (slots: number) => ({ workerId: newId(), types: ['trial.local'], slots, leaseMs: 60_000 })

test('a trial starts only within the limits of its workspace, comparison, credentials and memory', async () => {
  const lab = await openComparisonLab(app)
  const id = await submitted(lab, { concurrency: 3 })
  const trials = await lab.trials(id)
  const jobs = await jobsOf(id)
  expect(jobs.map((job) => job.id)).toEqual(trials.map((trial: { id: string }) => trial.id))
  const key = jobs[0]?.payload.comparison
  const { rows } = await app.database.pool.query(`select id from workspaces where login = 'local'`)
  for (const job of jobs) {
    expect(job.fair_group).toBe(`${rows[0].id}/${key}`)
    expect(job.limit_keys).toEqual([`comparison ${key}`, `model ${lab.reference}`, `sandbox ${lab.local}`])
  }
  const memory = Object.fromEntries(jobs.map(({ memory_mb }, n) => [trials[n].task.name, memory_mb]))
  expect(memory).toMatchObject({ 'assay/greet-in-bash': 512, 'assay/pack-it-up': 2048 })
  await lab.cancel(id)
  expect(await jobsOf(id)).toEqual([])
})

test.each([
  [1, 256],
  [257, 384],
  [2049, 3072],
  [1_000_000_000_000, 1_572_864],
])('a task that declares %i MB is queued with a weight of %i MB', async (named, weighed) => {
  await using own = await testApp()
  const lab = await openComparisonLab(own)
  await own.database.pool.query('update task_contents set memory_mb = $1', [named])
  await lab.create()
  await drain(
    own.database,
    serviceJobs(lab.tools).filter(({ type }) => type === 'comparison.submit'),
  )
  const { rows } = await own.database.pool.query(`select distinct memory_mb from jobs where type = 'trial.local'`)
  expect(rows).toEqual([{ memory_mb: weighed }])
})

test('workspaces share slots evenly, and so do comparisons of one workspace, regardless of size', async () => {
  const [large, small] = [await openComparisonLab(app), await openComparisonLab(await another('small'))]
  const ids = [
    await submitted(large, { attempts: 10 }),
    await submitted(large, { attempts: 4 }),
    await submitted(small, {}),
  ]
  const keys = await Promise.all(ids.map(async (id) => (await jobsOf(id))[0]?.payload.comparison))
  const started: unknown[] = []
  for (const slots of [4, 8, 4, 4]) {
    const { jobs } = await claim(app.database.db, trialClaim(slots))
    for (const { payload } of jobs) started.push(keys.indexOf((payload as TrialJob['payload']).comparison))
  }
  const count = (which: number) => started.filter((each) => each === which).length
  expect([count(0), count(1), count(2)]).toEqual([5, 5, 10])
  await app.database.pool.query('delete from jobs')
  await large.cancel(ids[0] ?? '')
  await large.cancel(ids[1] ?? '')
  await small.cancel(ids[2] ?? '')
})

test.each([
  ['sandbox', { sandbox: 3, model: undefined }],
  ['model', { sandbox: undefined, model: 2 }],
] as const)('the concurrency limit of a %s credential holds across several workers', async (kind, limits) => {
  await limitCredentials(app.database.db, limits)
  const limit = limits[kind] ?? 0
  const full = Promise.withResolvers<void>()
  let [running, most] = [0, 0]
  const engine = createScriptedEngine(async () => {
    running += 1
    most = Math.max(most, running)
    if (running >= limit) full.resolve()
    await full.promise // the first ones wait for each other, so that the limit is reached
    await new Promise(setImmediate)
    running -= 1
    return {}
  })
  const lab = await openComparisonLab(app, engine)
  const ids = [await submitted(lab, { attempts: 2 }), await submitted(lab, { attempts: 2, concurrency: 50 })]
  const workers = [1, 2, 3].map(() =>
    startWorker({ database: app.database, handlers: sandboxJobs(lab.tools, 'local'), slots: 8, log: app.tools.log }),
  )
  try {
    for (const id of ids)
      await expect.poll(async () => (await lab.read(id)).state, { timeout: 30_000 }).toBe('completed')
  } finally {
    await Promise.all(workers.map((worker) => worker.stop(0)))
    await limitCredentials(app.database.db, { sandbox: undefined, model: undefined })
  }
  expect(most).toBe(limit)
  expect(engine.orders).toHaveLength(40)
  expect(
    new Set(
      engine.orders.map((order: TrialRunRequest) => order[kind === 'model' ? 'credentialId' : 'sandboxCredentialId']),
    ).size,
  ).toBe(1)
})
