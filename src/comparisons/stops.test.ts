import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { smallTask } from '../../test/support/archives.ts'
import {
  createScriptedEngine,
  openComparisonLabIn,
  openRepositoryComparisonLab,
  type ScriptedEngine,
} from '../../test/support/comparisons.ts'
import { type PackageRegistryServer, startPackageRegistry } from '../../test/support/package-registry.ts'
import { addBenchmark } from '../benchmarks/schema.ts'
import { createCredential, updateCredential } from '../credentials/schema.ts'
import { isDigest } from '../platform/blobs/blob.ts'
import { inBenchmark } from './schema.ts'

// Every way in which the world outside stops a submission, and the way on from each. The last test holds the list
// against the code.

const PROVOKED = new Set<string>()

let app: TestApp
let registry: PackageRegistryServer
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'assay-stops-'))
  mkdirSync(join(folder, 'shelf'))
  registry = await startPackageRegistry()
  app = await testApp({
    ASSAY_REGISTRIES: `dir:${join(folder, 'shelf')},harbor`,
    ASSAY_HARBOR_URL: registry.url,
    ASSAY_HARBOR_PUBLIC_KEY: registry.publicKey,
  })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await registry[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

async function publish(name: string, isPrivate = false) {
  const tasks = [
    await registry.rows.publishTask({ name: `${name}-1`, isPrivate }),
    await registry.rows.publishTask({ name: `${name}-2`, isPrivate }),
  ]
  return registry.rows.publishDataset({ name, tasks, isPrivate })
}

/** A benchmark of two tasks that is added, on an app. */
async function comparingAt(name: string, on: TestApp = app, engine = createScriptedEngine()) {
  const [datasetOrg = '', dataset = ''] = name.split('/')
  expect((await on.call(addBenchmark, { body: { reference: name } })).status).toBe(201)
  const grounds = { endpoints: inBenchmark, params: { datasetOrg, dataset }, chosen: {} }
  return { ...(await openComparisonLabIn(on, grounds, engine, {})), engine, app: on }
}

type StopLab = Awaited<ReturnType<typeof comparingAt>>
type Stopped = { code: string; retryable: boolean; trials?: number }

/** Created, stopped by what `provoke` does, and resumed after it was mended: once to its end, each trial once. */
async function provoked(
  lab: StopLab,
  { code, retryable, trials = 4 }: Stopped,
  provoke: () => unknown,
  mend: () => unknown,
) {
  PROVOKED.add(code)
  const { body } = await lab.create()
  await provoke()
  await lab.work()
  const stopped = await lab.read(body.id)
  expect(stopped).toMatchObject({ state: 'submission_failed', submissionError: { code, retryable } })
  expect(stopped.submissionError.message).not.toBe('')
  expect((await lab.resume(body.id)).body.state).toBe('submitting')
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({ state: 'submission_failed', submissionError: { code } })
  await mend()
  const resumed = (await lab.resume(body.id)).body
  expect(resumed).not.toHaveProperty('submissionError')
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({
    state: 'completed',
    trials: { total: trials, queued: 0, errored: 0 },
  })
  await expectOneResultEach(lab.app, body.id, trials)
  expect(lab.engine.orders).toHaveLength(trials)
}

async function expectOneResultEach(on: TestApp, id: string, trials: number): Promise<void> {
  const { rows } = await on.database.pool.query(
    `select count(*)::int as trials, count(distinct (task, setting, attempt))::int as places,
       count(*) filter (where trials.state in ('passed', 'failed'))::int as scored
     from trials join comparisons on comparisons.key = trials.comparison where comparisons.id = $1`,
    [id],
  )
  expect(rows).toEqual([{ trials, places: trials, scored: trials }])
}

test('registry unavailable', async () => {
  const shelf = join(folder, 'shelf')
  for (const task of ['greet-in-bash', 'pack-it-up'])
    cpSync(join('samples/tasks', task), join(shelf, 'lab/shelved', task), { recursive: true })
  const lab = await comparingAt('lab/shelved')
  await provoked(
    lab,
    { code: 'registry_unavailable', retryable: true },
    () => renameSync(shelf, `${shelf}-away`),
    () => renameSync(`${shelf}-away`, shelf),
  )
})

test('dataset changed in the registry', async () => {
  const { tasks } = await publish('lab/changed')
  const [first = '', second = ''] = tasks.map((task) => task.archive_path)
  const { objects } = registry.rows
  const before = objects.get(first) ?? Buffer.alloc(0)
  await provoked(
    await comparingAt('lab/changed'),
    { code: 'dataset_changed', retryable: false },
    () => objects.set(first, objects.get(second) ?? Buffer.alloc(0)),
    () => objects.set(first, before),
  )
})

test('dataset removed from the registry', async () => {
  const { tasks } = await publish('lab/gone')
  const path = tasks[0]?.archive_path ?? ''
  const before = registry.rows.objects.get(path) ?? Buffer.alloc(0)
  await provoked(
    await comparingAt('lab/gone'),
    { code: 'dataset_gone', retryable: false },
    () => registry.rows.objects.delete(path),
    () => registry.rows.objects.set(path, before),
  )
})

test('registry access refused', async () => {
  await publish('lab/private', true)
  const secret = { apiKey: registry.addKey(['lab']) }
  const body = { kind: 'registry', provider: 'harbor', name: 'ours', secret } as const
  const { body: credential } = await app.call(createCredential, { body })
  await provoked(
    await comparingAt('lab/private'),
    { code: 'registry_access_refused', retryable: true },
    () => {
      registry.revokeKey(secret.apiKey)
      registry.expireTokens()
    },
    () => {
      const fresh = { secret: { apiKey: registry.addKey(['lab']) } }
      return app.call(updateCredential, { params: { credentialId: credential.id }, body: fresh })
    },
  )
})

test('no worker provides the sandbox', async () => {
  await publish('lab/unoffered')
  await provoked(
    await comparingAt('lab/unoffered'),
    { code: 'sandbox_unavailable', retryable: true },
    () => app.database.pool.query('delete from sandbox_offers'),
    () => app.database.pool.query(`insert into sandbox_offers values (gen_random_uuid(), 'local', true, 'none', '')`),
  )
})

test('files of approved tasks no longer stored', async () => {
  const engine: ScriptedEngine = createScriptedEngine()
  const lab = { ...(await openRepositoryComparisonLab(app, engine)), engine, app }
  const { rows } = await app.database.pool.query(
    'select archive from task_contents join batch_tasks using (digest) where batch = $1 order by id limit 1',
    [lab.runId.slice('batch-'.length)],
  )
  const archive: unknown = rows[0].archive
  if (!isDigest(archive)) throw new Error('There is no such blob.')
  await provoked(
    lab,
    { code: 'task_content_gone', retryable: false, trials: 10 },
    () => app.tools.blobs.remove(archive),
    // The same files again, under whatever name.
    () => lab.repository.imported({ again: smallTask({ 'instruction.md': 'Say hello, five.\n' }) }),
  )
})

test('bug in the submission, resumed after the fix', async () => {
  PROVOKED.add('internal_error')
  await publish('lab/buggy')
  let isBroken = true
  const step = (name: string) => {
    if (isBroken && name === 'submit.planned') throw new Error('a bug')
  }
  const engine = createScriptedEngine()
  await comparingAt('lab/buggy')
  const grounds = { endpoints: inBenchmark, params: { datasetOrg: 'lab', dataset: 'buggy' }, chosen: {} }
  const lab = await openComparisonLabIn(app, grounds, engine, { step })
  const { body } = await lab.create()
  for (let tries = 0; (await lab.read(body.id)).state === 'submitting' && tries < 50; tries += 1) {
    await lab.work()
    // What the queue would wait for.
    await app.database.pool.query('update jobs set run_at = now() where run_at > now() and every_seconds is null')
  }
  expect(await lab.read(body.id)).toMatchObject({
    state: 'submission_failed',
    submissionError: { code: 'internal_error', retryable: true },
  })
  isBroken = false
  await lab.resume(body.id)
  await lab.work()
  expect((await lab.read(body.id)).state).toBe('completed')
  await expectOneResultEach(app, body.id, 4)
  expect(engine.orders).toHaveLength(4)
})

/** Root, and a kernel that lets root mount. */
function canMount(): boolean {
  const place = mkdtempSync(join(tmpdir(), 'assay-mount-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', place], { stdio: 'ignore' })
    execFileSync('umount', [place])
    return true
  } catch {
    return false
  } finally {
    rmSync(place, { recursive: true })
  }
}

const mounts = canMount()

test.runIf(mounts)('a disk that is full (needs root, to mount a small one)', async () => {
  const place = mkdtempSync(join(tmpdir(), 'assay-small-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', place])
  try {
    await publish('lab/full')
    await using small = await testApp({
      ASSAY_DATA: place,
      ASSAY_REGISTRIES: 'harbor',
      ASSAY_HARBOR_URL: registry.url,
      ASSAY_HARBOR_PUBLIC_KEY: registry.publicKey,
    })
    await provoked(
      await comparingAt('lab/full', small),
      { code: 'disk_full', retryable: true },
      () => fill(place),
      () => rmSync(join(place, 'filler')),
    )
  } finally {
    execFileSync('umount', ['-l', place])
    rmSync(place, { recursive: true })
  }
})

/** To the last byte. */
function fill(place: string): void {
  const { bavail, bsize } = statfsSync(place)
  writeFileSync(join(place, 'filler'), Buffer.alloc(bavail * bsize))
  expect(statfsSync(place).bavail).toBe(0)
}

test('every submission error code is covered by a test in this file', () => {
  const code = readFileSync(new URL('submit.ts', import.meta.url), 'utf8')
  const known = [...code.matchAll(/toSubmissionError\(\s*'(\w+)'/g)].map(([, name]) => name ?? '')
  const provable = known.filter((name) => name !== 'disk_full' || mounts)
  expect([...PROVOKED].sort()).toEqual([...new Set(provable)].sort())
})
