import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { smallTask } from '../../test/support/archives.ts'
import { openComparisonLabIn } from '../../test/support/comparisons.ts'
import { baseImages, type Dockerd, startDockerd } from '../../test/support/dockerd.ts'
import { addBenchmark } from '../benchmarks/schema.ts'
import { createCredential, deleteCredential } from '../credentials/schema.ts'
import { inBenchmark } from './schema.ts'
import type { TrialEngine } from './trials/engine.ts'

// Pauses as they come about, with a Docker engine of our own and the real engine for trials.

let folder: string
let dockerd: Dockerd
let app: TestApp
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'assay-pauses-'))
  for (const [path, text] of Object.entries(smallTask())) {
    mkdirSync(dirname(join(folder, 'lab/docked/hello', path)), { recursive: true })
    writeFileSync(join(folder, 'lab/docked/hello', path), text, { mode: path.endsWith('.sh') ? 0o755 : 0o644 })
  }
  dockerd = await startDockerd({ images: await baseImages() })
  app = await openApp(0)
}, 300_000)
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await dockerd[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

async function openApp(patienceSec: number): Promise<TestApp> {
  const opened = await testApp({
    ASSAY_REGISTRIES: `dir:${folder}`,
    ASSAY_SANDBOXES: 'docker',
    DOCKER_HOST: `unix://${dockerd.socket}`,
    ASSAY_SANDBOX_PATIENCE: String(patienceSec),
  })
  await opened.call(addBenchmark, { body: { reference: 'lab/docked' } })
  return opened
}

const PLACE = { datasetOrg: 'lab', dataset: 'docked' }

type RunTrial = TrialEngine['run']
type AroundTrial = (run: () => ReturnType<RunTrial>) => ReturnType<RunTrial>

/** The real engine, with something that happens around its second trial. */
async function comparingInDocker(second: AroundTrial = (run) => run(), target = app) {
  let orders = 0
  const real = target.tools.engine
  const run: RunTrial = (order, watch) => {
    orders += 1
    return orders === 2 ? second(() => real.run(order, watch)) : real.run(order, watch)
  }
  const engine: TrialEngine = { ...real, run }
  const lab = await openComparisonLabIn(target, { endpoints: inBenchmark, params: PLACE, chosen: {} }, engine, {})
  for (const sandbox of ['docker', 'docker.stored'])
    await target.database.pool.query(`insert into sandbox_offers values (gen_random_uuid(), $1, true, 'none', '')`, [
      sandbox,
    ])
  const { sandboxes } = (await target.call(inBenchmark.catalog, { params: PLACE })).body
  const builtin: string = sandboxes.find(({ id }: { id: string }) => id === 'docker').credentials[0].id
  return { ...lab, builtin }
}

async function expectOneResultEach(id: string, trials: number): Promise<void> {
  const { rows } = await app.database.pool.query(
    `select count(distinct (task, setting, attempt))::int as places, count(*)::int as trials,
       count(*) filter (where trials.state in ('passed', 'failed'))::int as scored
     from trials join comparisons on comparisons.key = trials.comparison where comparisons.id = $1`,
    [id],
  )
  expect(rows).toEqual([{ places: trials, trials, scored: trials }])
}

/** Gone, with all that runs in it. */
async function stopDockerd(): Promise<void> {
  process.kill(dockerd.pid, 'SIGTERM')
  await vi.waitFor(() => expect(() => process.kill(dockerd.pid, 0)).toThrow(), { timeout: 30_000 })
}

test.each([
  ['between two trials', (run: () => ReturnType<RunTrial>) => stopDockerd().then(run)],
  [
    'in the middle of one',
    (run: () => ReturnType<RunTrial>) => Promise.all([run(), stopDockerd()]).then(([ran]) => ran),
  ],
])(
  'a Docker engine that stops %s pauses the comparison; once it is back the comparison continues',
  async (_, second) => {
    const lab = await comparingInDocker(second)
    const { body } = await lab.create({ sandbox: 'docker', sandboxCredentialId: lab.builtin, attempts: 2 })
    await lab.work('docker')
    const paused = await lab.read(body.id)
    expect(paused).toMatchObject({
      state: 'paused',
      pause: { reason: 'sandbox' },
      trials: { total: 4, running: 0, errored: 0 },
    })
    expect(paused.pause.message).not.toBe('')
    expect(paused.trials.queued).toBeGreaterThanOrEqual(2)
    await lab.resume(body.id)
    await lab.work('docker')
    expect(await lab.read(body.id)).toMatchObject({ state: 'paused', trials: paused.trials })

    dockerd = await startDockerd({ folder: dockerd.folder })
    expect((await lab.resume(body.id)).body.state).toBe('running')
    await lab.work('docker')
    const done = await lab.read(body.id)
    expect(done).toMatchObject({ state: 'completed', trials: { total: 4, passed: 2, failed: 2, errored: 0 } })
    expect(done).not.toHaveProperty('pause')
    await expectOneResultEach(body.id, 4)
    // A container that the engine created just before it stopped is removed by the sweep.
    await app.tools.findProvider('docker')?.reap()
    expect(await dockerd.docker.call<unknown[]>('GET', '/containers/json', { query: { all: 'true' } })).toEqual([])
  },
  300_000,
)

test.each<[string, (restart: () => Promise<void>) => AroundTrial]>([
  ['between two trials', (restart) => (run) => restart().then(run)],
  ['in the middle of one', (restart) => (run) => Promise.all([run(), restart()]).then(([ran]) => ran)],
])(
  'a Docker engine that restarts %s pauses nothing',
  async (_, second) => {
    await using patient = await openApp(120)
    let restarted: Promise<Dockerd> | undefined
    const restart = async (): Promise<void> => {
      await stopDockerd()
      restarted = startDockerd({ folder: dockerd.folder })
    }
    const lab = await comparingInDocker(second(restart), patient)
    const { body } = await lab.create({ sandbox: 'docker', sandboxCredentialId: lab.builtin, attempts: 2 })
    await lab.work('docker')
    dockerd = (await restarted) ?? dockerd
    expect(await lab.read(body.id)).toMatchObject({
      state: 'completed',
      trials: { total: 4, passed: 2, failed: 2, errored: 0 },
    })
  },
  300_000,
)

test('trials with a stored credential never run on the engine of this machine', async () => {
  const lab = await comparingInDocker()
  const secret = { host: 'tcp://engine.example.com:2376' }
  const body = { kind: 'sandbox', provider: 'docker', name: 'another engine', secret } as const
  const { body: credential } = await app.call(createCredential, { body })
  const { body: created } = await lab.create({ sandbox: 'docker', sandboxCredentialId: credential.id })
  await lab.work('docker.stored')
  expect(await lab.read(created.id)).toMatchObject({
    state: 'paused',
    pause: { reason: 'sandbox', message: expect.stringContaining('engine.example.com:2376') },
    trials: { total: 2, queued: 2, errored: 0 },
  })
  await lab.cancel(created.id)
  await app.call(deleteCredential, { params: { credentialId: credential.id } })
}, 300_000)

test('a deleted credential pauses the comparison; a replacement lets it continue', async () => {
  const lab = await comparingInDocker()
  const secret = { host: 'tcp://engine.example.com:2376' }
  const options = { kind: 'sandbox', provider: 'docker', name: 'engine', secret } as const
  const { body: credential } = await app.call(createCredential, { body: options })
  const { body } = await lab.create({ sandbox: 'docker', sandboxCredentialId: credential.id })
  const remove = () => app.call(deleteCredential, { params: { credentialId: credential.id } })
  expect(await remove()).toMatchObject({ status: 409, body: { code: 'credential_in_use' } })
  await lab.cancel(body.id)
  expect((await remove()).status).toBe(204)
  await lab.resume(body.id)
  await lab.work('docker')
  expect(await lab.read(body.id)).toMatchObject({
    state: 'paused',
    pause: { reason: 'credential' },
    trials: { total: 2, queued: 2, errored: 0 },
  })
  await lab.resume(body.id, { credentials: { [credential.id]: lab.builtin } })
  await lab.work('docker')
  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { passed: 1, failed: 1 } })
  await expectOneResultEach(body.id, 2)
}, 300_000)
