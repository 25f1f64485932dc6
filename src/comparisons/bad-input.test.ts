import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, type TestResponse, testApp } from '../../test/support/app.ts'
import { smallTask } from '../../test/support/archives.ts'
import {
  type ComparisonLab,
  createScriptedEngine,
  openComparisonLab,
  openRepositoryComparisonLab,
} from '../../test/support/comparisons.ts'
import { buildTrialRecord } from '../../test/support/trial-record.ts'
import { createCredential } from '../credentials/schema.ts'
import type { Endpoint } from '../platform/http/endpoint.ts'
import { requireTrialCount } from './choices.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const pointers = ({ status, body }: TestResponse) => ({
  status,
  errors: body.errors?.map(({ pointer, code }: { pointer: string; code: string }) => `${pointer} ${code}`),
})

const UNKNOWN = '00000000-0000-4000-8000-000000000000'

describe.each([
  { scope: 'benchmark', open: openComparisonLab },
  { scope: 'repository', open: openRepositoryComparisonLab },
])('on a $scope', ({ scope, open }) => {
  let lab: ComparisonLab
  let model: ReturnType<ComparisonLab['body']>['models'][number]
  beforeAll(async () => {
    lab = await open(app)
    model = lab.body().models[0] ?? { catalogId: '', credentialId: '', harnesses: [] }
  })

  const refused = async (over: object, ...errors: string[]) =>
    expect(pointers(await lab.create(over))).toEqual({ status: 422, errors })

  test('more than 12 models, or no model', async () => {
    await refused({ models: Array(13).fill(model) }, '/models too_big')
    await refused({ models: [] }, '/models too_small')
  })

  test('a model that is not in the catalog', () =>
    refused({ models: [{ ...model, catalogId: 'no/such' }] }, '/models/0/catalogId unknown_model'))

  test('a harness that the model does not support; no harness, or more than 16', async () => {
    await refused({ models: [{ ...model, harnesses: ['oracle', 'moon'] }] }, '/models/0/harnesses/1 unknown_harness')
    await refused({ models: [{ ...model, harnesses: [] }] }, '/models/0/harnesses too_small')
    await refused({ models: [{ ...model, harnesses: Array(17).fill('nop') }] }, '/models/0/harnesses too_big')
  })

  test('a reasoning level that the model does not have', () =>
    refused({ models: [{ ...model, reasoningLevel: 'high' }] }, '/models/0/reasoningLevel unknown_level'))

  test('a credential of the wrong kind or provider, or an unknown one', async () => {
    const secret = { host: 'tcp://engine.example.com:2376' }
    const docker = { kind: 'sandbox', provider: 'docker', name: 'engine', secret } as const
    const { body } = await app.call(createCredential, { body: docker })
    await refused({ models: [{ ...model, credentialId: lab.local }] }, '/models/0/credentialId credential_misfit')
    await refused({ models: [{ ...model, credentialId: UNKNOWN }] }, '/models/0/credentialId credential_misfit')
    await refused({ sandboxCredentialId: lab.reference }, '/sandboxCredentialId credential_misfit')
    await refused({ sandboxCredentialId: body.id }, '/sandboxCredentialId credential_misfit')
  })

  test('a credential of another workspace is treated as unknown', async () => {
    const other = await app.otherWorkspace(`neighbour-of-${scope}`)
    const secret = { host: 'tcp://engine.example.com:2376' }
    const body = { kind: 'sandbox', provider: 'docker', name: 'theirs', secret } as const
    const { body: theirs } = await app.call(createCredential, { params: { org: other.login }, key: other.key, body })
    await refused({ sandbox: 'docker', sandboxCredentialId: theirs.id }, '/sandboxCredentialId credential_misfit')
  })

  test('a sandbox that is not in the catalog', () => refused({ sandbox: 'moon' }, '/sandbox unknown_sandbox'))

  test('the same setting twice', async () => {
    const twice = ['/models/1/harnesses/0 duplicate_setting', '/models/1/harnesses/1 duplicate_setting']
    await refused({ models: [model, { ...model, reasoningLevel: 'none' }] }, ...twice)
    await refused({ models: [{ ...model, harnesses: ['nop', 'nop'] }] }, '/models/0/harnesses/1 duplicate_setting')
  })

  test('numbers out of range, malformed ids and unknown fields', async () => {
    await refused({ attempts: 11 }, '/attempts too_big')
    await refused({ attempts: 0 }, '/attempts too_small')
    await refused({ budgetUsd: -1 }, '/budgetUsd too_small')
    await refused({ concurrency: 0 }, '/concurrency too_small')
    await refused({ id: 'mine' }, '/id invalid_format')
    await refused({ dataset: 'quick' }, '/dataset unknown_field')
  })

  test('all mistakes of a request are reported together', () =>
    refused(
      {
        models: [
          { ...model, catalogId: 'no/such' },
          { ...model, reasoningLevel: 'high', harnesses: ['moon'] },
        ],
      },
      '/models/0/catalogId unknown_model',
      '/models/1/reasoningLevel unknown_level',
      '/models/1/harnesses/0 unknown_harness',
    ))

  test('a rejected request stores nothing', async () => {
    const count = async () => (await app.database.pool.query('select count(*)::int as n from comparisons')).rows[0].n
    const before = await count()
    await refused({ sandbox: 'moon' }, '/sandbox unknown_sandbox')
    expect(await count()).toBe(before)
  })

  test('an id is rejected with a different body or in another scope', async () => {
    const body = lab.body()
    const ask = (over: object = {}) =>
      app.call<Endpoint>(lab.endpoints.create, { params: lab.params, body: { ...body, ...over } as never })
    const answers = await Promise.all([ask(), ask(), ask()])
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202])
    for (const over of [{ attempts: 2 }, { skipCompleted: true }, { models: [{ ...model, harnesses: ['nop'] }] }])
      expect(await ask(over)).toMatchObject({ status: 409, body: { code: 'id_reused' } })
    const elsewhere = await (scope === 'benchmark' ? openRepositoryComparisonLab : openComparisonLab)(app)
    expect(await elsewhere.create({ id: body.id })).toMatchObject({ status: 409, body: { code: 'id_reused' } })
    const nowhere = { ...lab.params, dataset: 'none', name: 'none' }
    const unknown = await app.call<Endpoint>(lab.endpoints.create, { params: nowhere, body: body as never })
    expect(unknown).toMatchObject({ status: 409, body: { code: 'id_reused' } })
    const again = await ask({ id: body.id.toUpperCase(), attempts: 1, skipCompleted: false })
    expect(again).toMatchObject({ status: 202, body: { id: body.id } })
    await lab.cancel(body.id)
  })

  test('a comparison is found only in its own scope; unknown and foreign ones are 404', async () => {
    const other = await app.otherWorkspace(`stranger-to-${scope}`)
    const elsewhere = await (scope === 'benchmark' ? openRepositoryComparisonLab : openComparisonLab)(app)
    const { body } = await lab.create()
    const { read, resume, resumeShort, pause, cancel, matrix, events, trials } = lab.endpoints
    for (const endpoint of [read, resume, resumeShort, pause, cancel, matrix, events, trials]) {
      expect((await app.call<Endpoint>(endpoint, lab.at(UNKNOWN))).status).toBe(404)
      const foreign = { ...lab.at(body.id, { org: other.login }), key: other.key }
      expect((await app.call<Endpoint>(endpoint, foreign)).status).toBe(404)
    }
    for (const endpoint of [elsewhere.endpoints.read, elsewhere.endpoints.resume, elsewhere.endpoints.cancel])
      expect((await app.call<Endpoint>(endpoint, elsewhere.at(body.id))).status).toBe(404)
    expect((await lab.read(body.id)).state).toBe('submitting')
    await lab.cancel(body.id)
  })

  test('canceling is idempotent, also concurrently', async () => {
    const { body } = await lab.create()
    const answers = await Promise.all([lab.cancel(body.id), lab.cancel(body.id)])
    expect(answers.map(({ status }) => status)).toEqual([202, 202])
    const canceled = await lab.read(body.id)
    expect(canceled.state).toBe('canceled')
    expect((await lab.cancel(body.id)).body).toEqual(canceled)
  })

  test('a resume with mismatched credentials or unknown fields is rejected', async () => {
    const { body } = await lab.create()
    const misfit = await lab.resume(body.id, { credentials: { [lab.local]: lab.reference } })
    expect(pointers(misfit)).toEqual({ status: 422, errors: [`/credentials/${lab.local} credential_misfit`] })
    const unused = await lab.resume(body.id, { credentials: { [UNKNOWN]: lab.reference } })
    expect(pointers(unused)).toEqual({ status: 422, errors: [`/credentials/${UNKNOWN} credential_misfit`] })
    expect(pointers(await lab.resume(body.id, { models: [] }))).toEqual({
      status: 422,
      errors: ['/models unknown_field'],
    })
    await lab.cancel(body.id)
  })

  test('artifacts with hostile names or HTML content are served as downloads only', async () => {
    const hostile = '<img src=x onerror=alert(1)>.html'
    const liar = await open(app, {
      ...createScriptedEngine(),
      run: async (order) => {
        mkdirSync(join(order.outputFolder, 'artifacts'))
        writeFileSync(join(order.outputFolder, 'artifacts', hostile), '<script>alert(1)</script>')
        writeFileSync(join(order.outputFolder, 'new\nline.log'), 'hidden')
        symlinkSync('/etc/passwd', join(order.outputFolder, 'passwd'))
        return buildTrialRecord(order)
      },
    })
    const { body } = await liar.create()
    await liar.work()
    const [trial] = await liar.trials(body.id)
    expect(trial.artifacts.map(({ name }: { name: string }) => name)).toEqual([`artifacts/${hostile}`])
    const get = (artifact: string) =>
      app.call(liar.endpoints.artifact, liar.at(body.id, { trialId: trial.id, artifact }))
    const { status, text, headers } = await get(`artifacts/${hostile}`)
    expect([status, text]).toEqual([200, '<script>alert(1)</script>'])
    expect(headers.get('content-type')).toBe('application/octet-stream')
    expect(headers.get('content-disposition')).toMatch(/^attachment; filename\*=UTF-8''[\w%.!'()*~-]+$/)
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('content-security-policy')).toBe('sandbox')
    for (const name of ['passwd', '../../secret.key', '%2e%2e']) expect((await get(name)).status).toBe(404)
  })
})

test('a comparison of 100,001 trials is rejected', () => {
  expect(() => requireTrialCount(100_000)).not.toThrow()
  expect(() => requireTrialCount(100_001)).toThrow('100001 trials; the maximum is 100000')
})

test('a benchmark with more tasks than fit into a comparison is rejected', async () => {
  const lab = await openComparisonLab(app)
  await app.database.pool.query(`update benchmarks set tasks = 5001 where dataset = 'quick'`)
  const tooMany = await lab.create({ attempts: 10 })
  await app.database.pool.query(`update benchmarks set tasks = 5 where dataset = 'quick'`)
  expect(pointers(tooMany)).toEqual({ status: 422, errors: ['/models too_many_trials'] })
})

test('a comparison on a benchmark does not accept a choice of tasks', async () => {
  const lab = await openComparisonLab(app)
  expect(pointers(await lab.create({ tasks: [] }))).toEqual({ status: 422, errors: ['/tasks unknown_field'] })
})

describe('tasks of a repository', () => {
  let lab: Awaited<ReturnType<typeof openRepositoryComparisonLab>>
  beforeAll(async () => {
    lab = await openRepositoryComparisonLab(app)
  })
  const refused = async (tasks: unknown, ...errors: string[]) =>
    expect(pointers(await lab.create({ tasks }))).toEqual({ status: 422, errors })

  test('no tasks, or more than 5,000', async () => {
    await refused([], '/tasks too_small')
    await refused(undefined, '/tasks invalid_type')
    await refused(Array(5001).fill({ runId: lab.runId, taskId: 'one' }), '/tasks too_big')
  })

  test('unknown tasks: of no batch, of another repository, or with hostile names', async () => {
    const other = await openRepositoryComparisonLab(app)
    const { runId } = lab
    await refused(
      [
        { runId, taskId: 'one' },
        { runId, taskId: 'none' },
        { runId: `batch-${UNKNOWN}`, taskId: 'one' },
        { runId: other.runId, taskId: 'one' },
        { runId, taskId: '../one' },
        { runId: '\u202e', taskId: "'; drop table trials; --" },
      ],
      ...[1, 2, 3, 4, 5].map((place) => `/tasks/${place} unknown_task`),
    )
    await refused([{ runId, taskId: 'one', digest: 'x' }], '/tasks/0/digest unknown_field')
  })

  test('the same task twice', async () => {
    const { runId } = lab
    const tasks = [
      { runId, taskId: 'two' },
      { runId, taskId: 'one' },
      { runId: runId.toUpperCase(), taskId: 'two' },
    ]
    await refused(tasks, '/tasks/2 duplicate_task')
  })

  test('tasks that are not ready, not approved or declined', async () => {
    const { repository } = lab
    const broken = smallTask({ 'task.toml': 'schema_version = ' })
    const { runId, tasks } = await repository.imported({ open: smallTask(), no: smallTask(), bad: broken })
    const digest = tasks.find(({ taskId }: { taskId: string }) => taskId === 'no')?.digest
    await repository.decide(runId, 'no', { decision: 'declined', digest })
    await refused(
      ['open', 'no', 'bad'].map((taskId) => ({ runId, taskId })),
      ...['/tasks/0 task_not_approved', '/tasks/1 task_not_approved', '/tasks/2 task_not_ready'],
    )
  })
})
