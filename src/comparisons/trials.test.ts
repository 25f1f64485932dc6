import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { createScriptedEngine, openComparisonLab } from '../../test/support/comparisons.ts'
import { buildTrialRecord } from '../../test/support/trial-record.ts'
import { createCredential, deleteCredential } from '../credentials/schema.ts'
import type { Digest } from '../platform/blobs/blob.ts'
import { SandboxUnavailable, SandboxUnsupported } from '../sandboxes/sandbox.ts'
import { inBenchmark } from './schema.ts'
import type { ComparisonTrial } from './shapes/schema.ts'
import { sweepArtifacts } from './trials/artifacts.ts'
import { CredentialGone, type TrialRunRequest } from './trials/engine.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const UNLUCKY = 'assay/greet-in-bash'
const isUnlucky = ({ task, harness }: TrialRunRequest) => task.name === UNLUCKY && harness === 'oracle'
const spoiled = { state: 'errored', reward: null, rewards: {} } as const
const unlucky = (trials: ComparisonTrial[]) =>
  trials.find(({ task, settingId }) => task.name === UNLUCKY && /oracle/.test(settingId))

test('a trial that fails because of the infrastructure is retried twice, and each attempt is recorded', async () => {
  let spoils = 2
  const lab = await openComparisonLab(
    app,
    createScriptedEngine((request) =>
      isUnlucky(request) && spoils-- > 0 ? { ...spoiled, class: 'sandbox_error', error: `broke, ${spoils} more` } : {},
    ),
  )
  const { body } = await lab.create()
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { passed: 5, failed: 5, errored: 0 } })
  const trial = unlucky(await lab.trials(body.id))
  expect(trial).toMatchObject({ state: 'passed', retries: 2, class: 'verified' })
  const { body: whole } = await app.call(inBenchmark.trial, lab.at(body.id, { trialId: trial?.id }))
  expect(whole.spoiled).toMatchObject([
    { class: 'sandbox_error', error: 'broke, 1 more' },
    { class: 'sandbox_error', error: 'broke, 0 more' },
  ])
})

test('trial ids do not reveal how many comparisons other workspaces have', async () => {
  const lab = await openComparisonLab(app, createScriptedEngine())
  const heads: number[] = []
  for (let n = 0; n < 2; n++) {
    const { body } = await lab.create()
    await lab.work()
    const ids = (await lab.trials(body.id)).map(({ id }: ComparisonTrial) => id.slice(0, 13).replace('-', ''))
    expect(new Set(ids).size).toBe(1)
    heads.push(Number.parseInt(ids[0] ?? '', 16))
  }
  expect(Math.abs((heads[1] ?? 0) - (heads[0] ?? 0))).toBeGreaterThan(1000)
})

test('after three infrastructure failures a trial is errored and unscored; a resume retries it', async () => {
  let spoils = 3
  const lab = await openComparisonLab(
    app,
    createScriptedEngine((request) =>
      isUnlucky(request) && spoils-- > 0 ? { ...spoiled, class: 'verifier_error', error: 'no reward' } : {},
    ),
  )
  const { body } = await lab.create()
  await lab.work()
  const status = await lab.read(body.id)
  expect(status).toMatchObject({ state: 'completed', trials: { total: 10, passed: 4, failed: 5, errored: 1 } })
  expect(status.settings[0]).toMatchObject({ tasks: 4, passed: 4, accuracy: 100 })
  expect(unlucky(await lab.trials(body.id, { state: 'errored' }))).toMatchObject({
    state: 'errored',
    class: 'verifier_error',
    retries: 2,
    error: 'no reward',
    reward: null,
  })
  expect((await lab.resume(body.id)).body).toMatchObject({ state: 'running', trials: { queued: 1, errored: 0 } })
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { passed: 5, errored: 0 } })
})

test('a task that cannot run or be verified here is errored without a retry', async () => {
  const engine = createScriptedEngine((request) => {
    if (isUnlucky(request)) throw new SandboxUnsupported('It wants a GPU.')
    return {}
  })
  const { calibrate } = engine
  engine.calibrate = async (request, watch) =>
    request.task.name === 'assay/pack-it-up'
      ? { kind: 'unfit', reason: 'Doing nothing passes.' }
      : calibrate(request, watch)
  await using own = await testApp()
  const lab = await openComparisonLab(own, engine)
  const { body } = await lab.create()
  await lab.work()
  const errored: ComparisonTrial[] = await lab.trials(body.id, { state: 'errored' })
  expect(errored.map(({ task, class: word, retries }) => [task.name, word, retries])).toEqual([
    ['assay/greet-in-bash', 'operator_error', 0],
    ['assay/pack-it-up', 'verifier_error', 0],
    ['assay/pack-it-up', 'verifier_error', 0],
  ])
})

test('a task is calibrated once per sandbox, however many trials need it concurrently', async () => {
  await using own = await testApp()
  const engine = createScriptedEngine()
  const lab = await openComparisonLab(own, engine)
  const { body } = await lab.create({ attempts: 4 })
  await Promise.all([lab.work(), lab.work(), lab.work()])
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { total: 40, passed: 20 } })
  expect(engine.calibrations).toHaveLength(5)
  expect(engine.orders).toHaveLength(40)
})

test('no trial starts when the budget is spent; raising it continues the comparison', async () => {
  const engine = createScriptedEngine()
  const lab = await openComparisonLab(app, engine)
  const { body } = await lab.create({ budgetUsd: 0 })
  await lab.work()
  const paused = await lab.read(body.id)
  expect(paused).toMatchObject({ state: 'paused', pause: { reason: 'budget' }, trials: { queued: 10, running: 0 } })
  expect(engine.orders).toEqual([])
  await lab.resume(body.id)
  await lab.work()
  expect((await lab.read(body.id)).state).toBe('paused')
  expect((await lab.resume(body.id, { budgetUsd: 5 })).body).toMatchObject({ state: 'running', budgetUsd: 5 })
  await lab.work()
  const done = await lab.read(body.id)
  expect(done).toMatchObject({ state: 'completed', trials: { passed: 5, failed: 5 } })
  expect(done).not.toHaveProperty('pause')
  expect(engine.orders).toHaveLength(10)
})

test('an unavailable sandbox pauses the comparison, and its trials wait', async () => {
  let isLost = true
  const lab = await openComparisonLab(
    app,
    createScriptedEngine((request) => {
      if (isLost && isUnlucky(request)) throw new SandboxUnavailable('The daemon is gone.')
      return {}
    }),
  )
  const { body } = await lab.create()
  await lab.work()
  const paused = await lab.read(body.id)
  expect(paused).toMatchObject({ state: 'paused', pause: { reason: 'sandbox', message: 'The daemon is gone.' } })
  expect(paused.trials.running).toBe(0)
  expect(paused.trials.errored).toBe(0)
  isLost = false
  expect((await lab.resume(body.id)).body.state).toBe('running')
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { passed: 5, failed: 5 } })
})

const offerSandbox = (sandbox: string) =>
  app.database.pool.query('insert into sandbox_offers values (gen_random_uuid(), $1, true, $1, $2)', [sandbox, ''])

test('a worker without a Docker engine runs trials on the engine of a stored credential, and no others', async () => {
  const lab = await openComparisonLab(app)
  const docker = async () => {
    const { body } = await app.call(lab.endpoints.catalog, { params: lab.params })
    return body.sandboxes.find(({ id }: { id: string }) => id === 'docker')
  }
  const findEngines = () => app.tools.sandboxes.find(({ sandbox }) => sandbox === 'docker.stored')
  await expect(findEngines()?.test()).rejects.toThrow('No workspace has stored an engine.')
  await offerSandbox('docker.stored')
  const { available, credentials } = await docker()
  expect(available).toBe(false)
  const secret = { host: 'tcp://engine.example.com:2376' }
  const engine = { kind: 'sandbox', provider: 'docker', name: 'engine', secret } as const
  const { body: stored } = await app.call(createCredential, { body: engine })
  expect(await findEngines()?.test()).toEqual({ isolation: 'docker' })
  expect(await docker()).toMatchObject({
    available: true,
    isolation: 'docker',
    detail: expect.stringMatching(/stored credential/),
  })

  const { body: own } = await lab.create({ sandbox: 'docker', sandboxCredentialId: credentials[0].id })
  const { body: remote } = await lab.create({ sandbox: 'docker', sandboxCredentialId: stored.id })
  await lab.work('docker.stored')
  expect(await lab.read(remote.id)).toMatchObject({ state: 'completed', trials: { queued: 0, errored: 0 } })
  expect(await lab.read(own.id)).toMatchObject({ submissionError: { code: 'sandbox_unavailable' } })
  expect((await app.call(deleteCredential, { params: { credentialId: stored.id } })).status).toBe(204)
})

test('a missing credential pauses the comparison; a replacement lets it continue', async () => {
  const store = async () => {
    const body = {
      kind: 'sandbox',
      provider: 'docker',
      name: 'engine',
      secret: { host: 'tcp://engine.example.com:2376' },
    } as const
    return (await app.call(createCredential, { body })).body.id
  }
  const [first, second] = [await store(), await store()]
  const engine = createScriptedEngine((request) => {
    if (request.sandboxCredentialId === first) throw new CredentialGone('It was deleted.')
    return {}
  })
  const lab = await openComparisonLab(app, engine)
  const { body } = await lab.create({ sandbox: 'docker', sandboxCredentialId: first })
  await offerSandbox('docker.stored')
  await lab.work('docker.stored')
  expect(await lab.read(body.id)).toMatchObject({ state: 'paused', pause: { reason: 'credential' } })
  const inUse = await app.call(deleteCredential, { params: { credentialId: first } })
  expect(inUse).toMatchObject({ status: 409, body: { code: 'credential_in_use' } })
  const misfit = await lab.resume(body.id, { credentials: { [first]: lab.reference } })
  expect(misfit).toMatchObject({ status: 422, body: { errors: [{ pointer: `/credentials/${first}` }] } })
  await lab.resume(body.id, { credentials: { [first]: second } })
  await lab.work('docker.stored')
  expect((await lab.read(body.id)).state).toBe('completed')
  expect((await app.call(deleteCredential, { params: { credentialId: second } })).status).toBe(204)
})

test('a scored trial is reused once, and only under identical conditions', async () => {
  await using own = await testApp()
  const engine = createScriptedEngine()
  const lab = await openComparisonLab(own, engine)
  const first = await lab.create({ models: [{ ...lab.body().models[0], harnesses: ['oracle'] }] })
  await lab.work()
  expect(engine.orders).toHaveLength(5)
  const second = await lab.create({ skipCompleted: true, attempts: 2 })
  await lab.work()
  const status = await lab.read(second.body.id)
  expect(status).toMatchObject({ state: 'completed', trials: { total: 20, passed: 10, failed: 10, reused: 5 } })
  expect(status.settings[0]).toMatchObject({ tasks: 5, passed: 5, totalCostUsd: 0, trials: { reused: 5 } })
  expect(engine.orders).toHaveLength(20)
  const [old] = await lab.trials(first.body.id)
  const [fresh] = await lab.trials(second.body.id)
  expect(fresh).toMatchObject({ reusedFrom: old.id, state: 'passed', attempt: 1 })
  await own.database.pool.query(`update comparison_settings set harness_version = '0'`)
  const third = await lab.create({ skipCompleted: true })
  await lab.work()
  expect((await lab.read(third.body.id)).trials.reused).toBe(0)
})

test('a comparison whose trials are all reused completes without running a trial', async () => {
  await using own = await testApp()
  const engine = createScriptedEngine()
  const lab = await openComparisonLab(own, engine)
  await lab.create()
  await lab.work()
  const again = await lab.create({ skipCompleted: true })
  await lab.work()
  expect(await lab.read(again.body.id)).toMatchObject({ state: 'completed', trials: { total: 10, reused: 10 } })
  expect(engine.orders).toHaveLength(10)
})

test("the first scored attempt is the task's result, in any order of finishing; all attempts make the mean", async () => {
  await using own = await testApp()
  const seen = new Map<string, number>()
  const engine = createScriptedEngine((request) => {
    const attempt = (seen.get(request.task.name) ?? 0) + 1
    seen.set(request.task.name, attempt)
    return attempt === 1 ? { state: 'failed', reward: 0, rewards: { reward: 0 } } : {}
  })
  const lab = await openComparisonLab(own, engine)
  const { body } = await lab.create({ attempts: 4, models: [{ ...lab.body().models[0], harnesses: ['oracle'] }] })
  await lab.work()
  const [setting] = (await lab.read(body.id)).settings
  expect(setting).toMatchObject({ tasks: 5, passed: 0, accuracy: 0, stats: { passAt1: 75 } })
  const [trial] = await lab.trials(body.id)
  const at = lab.at(body.id, { trialId: trial.id })
  const voided = await own.call(inBenchmark.void, { ...at, body: { reason: 'The machine was overloaded.' } })
  expect(voided.body).toMatchObject({ state: 'failed', voided: { reason: 'The machine was overloaded.' } })
  const [after] = (await lab.read(body.id)).settings
  expect(after).toMatchObject({ tasks: 5, passed: 1, accuracy: 20, stats: { passAt1: 80 } })
  const twice = await own.call(inBenchmark.void, { ...at, body: { reason: 'Again.' } })
  expect(twice).toMatchObject({ status: 409, body: { code: 'trial_not_scored' } })
  const { rows } = await own.database.pool.query(`select detail from audit_events where action = 'trial.voided'`)
  expect(rows).toEqual([{ detail: { reason: 'The machine was overloaded.' } }])
})

test('an artifact is served as a download, whatever its content and name', async () => {
  const engine = createScriptedEngine()
  const lab = await openComparisonLab(app, {
    ...engine,
    run: async (request) => {
      mkdirSync(join(request.outputFolder, 'artifacts'))
      writeFileSync(
        join(request.outputFolder, 'artifacts', '<img src=x onerror=alert(1)>.html'),
        '<script>alert(1)</script>',
      )
      writeFileSync(join(request.outputFolder, 'artifacts', 'ünï "quoted".json'), '{}')
      writeFileSync(join(request.outputFolder, 'new\nline.log'), 'hidden')
      writeFileSync(join(request.outputFolder, 'empty.log'), '')
      symlinkSync('/etc/passwd', join(request.outputFolder, 'passwd'))
      return buildTrialRecord(request)
    },
  })
  const { body } = await lab.create()
  await lab.work()
  const [trial] = await lab.trials(body.id)
  expect(trial.artifacts.map(({ name, mediaType }: { name: string; mediaType: string }) => [name, mediaType])).toEqual([
    ['artifacts/<img src=x onerror=alert(1)>.html', 'application/octet-stream'],
    ['artifacts/ünï "quoted".json', 'application/json'],
  ])
  const get = (artifact: string) => app.call(inBenchmark.artifact, lab.at(body.id, { trialId: trial.id, artifact }))
  for (const [name, text] of [
    [trial.artifacts[0].name, '<script>alert(1)</script>'],
    [trial.artifacts[1].name, '{}'],
  ]) {
    const answer = await get(name)
    expect([answer.status, answer.text]).toEqual([200, text])
    expect(answer.headers.get('content-disposition')).toMatch(/^attachment; filename\*=UTF-8''[\w%.!'()*~-]+$/)
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
    expect(answer.headers.get('content-security-policy')).toBe('sandbox')
  }
  for (const name of ['passwd', '../../secret.key', 'empty.log', '%2e%2e']) expect((await get(name)).status).toBe(404)
  const other = await app.otherWorkspace('nosy')
  const theirs = lab.at(body.id, { trialId: trial.id, artifact: trial.artifacts[1].name, org: other.login })
  expect((await app.call(inBenchmark.artifact, { ...theirs, key: other.key })).status).toBe(404)

  const tools = { db: app.tools.database.db, blobs: app.tools.blobs }
  expect(await sweepArtifacts(tools, 1)).toBe(0)
  await app.database.pool.query(`update trials set finished_at = finished_at - interval '2 days'`)
  expect(await sweepArtifacts(tools, 1)).toBeGreaterThanOrEqual(10)
  expect((await get(trial.artifacts[1].name)).status).toBe(404)
  expect((await lab.trials(body.id))[0]).toMatchObject({ state: 'passed', artifacts: [] })
})

test('a sweep keeps the artifacts of trials that have run again since they were listed', async () => {
  const lab = await openComparisonLab(app)
  const { body } = await lab.create()
  await lab.work()
  const { db } = app.tools.database
  await app.database.pool.query(`update trials set finished_at = finished_at - interval '2 days'`)
  const swept: Digest[] = []
  const blobs = {
    ...app.tools.blobs,
    remove: async (digest: Digest) => {
      // All trials but the locked one end again while the first file is being deleted.
      await app.database.pool.query(`update trials set finished_at = now() where (comparison, ordinal) in
        (select comparison, ordinal from trials where artifacts is not null for update skip locked)`)
      swept.push(digest)
      await app.tools.blobs.remove(digest)
    },
  }
  await sweepArtifacts({ db, blobs }, 1)
  expect(swept).toHaveLength(1)
  const kept = (await lab.trials(body.id)).filter(({ artifacts }: ComparisonTrial) => artifacts.length > 0)
  expect(kept.length).toBeGreaterThanOrEqual(9)
  const artifact = lab.at(body.id, { trialId: kept[0].id, artifact: kept[0].artifacts[0].name })
  expect((await app.call(inBenchmark.artifact, artifact)).status).toBe(200)
})

test("an agent that leaves many files does not displace the engine's own artifacts", async () => {
  const engine = createScriptedEngine()
  const lab = await openComparisonLab(app, {
    ...engine,
    run: async (request) => {
      mkdirSync(join(request.outputFolder, 'artifacts'))
      for (let n = 0; n < 300; n += 1) writeFileSync(join(request.outputFolder, 'artifacts', `${n}`), 'x')
      for (const name of ['agent-1.log', 'changes.patch', 'verifier-1.log'])
        writeFileSync(join(request.outputFolder, name), name)
      return buildTrialRecord(request)
    },
  })
  const { body } = await lab.create()
  await lab.work()
  const [trial] = await lab.trials(body.id)
  expect(trial.artifacts).toHaveLength(200)
  expect(trial.artifacts.slice(0, 3)).toEqual([
    { name: 'agent-1.log', mediaType: 'text/plain; charset=utf-8', bytes: 11 },
    { name: 'changes.patch', mediaType: 'text/plain; charset=utf-8', bytes: 13 },
    { name: 'verifier-1.log', mediaType: 'text/plain; charset=utf-8', bytes: 14 },
  ])
  const at = lab.at(body.id, { trialId: trial.id, artifact: 'changes.patch' })
  expect((await app.call(inBenchmark.artifact, at)).text).toBe('changes.patch')
})
