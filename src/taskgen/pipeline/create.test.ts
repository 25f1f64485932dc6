import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  type GenerationApp,
  type GenerationLab,
  openGenerationLab,
  startGenerationApp,
} from '../../../test/support/generating.ts'
import { createBatch, listBatches, readGenerationOptions } from '../../batches/schema.ts'
import { createCredential, deleteCredential } from '../../credentials/schema.ts'

let app: GenerationApp & AsyncDisposable
let lab: GenerationLab
let valid: Record<string, string>
beforeAll(async () => {
  app = await startGenerationApp()
  lab = await openGenerationLab(app, { changes: { easy: 1, medium: 0, hard: 0 } })
  valid = (await lab.options()).defaults
})
// An offer that nobody repeats grows old.
beforeEach(() => lab.offer())
afterAll(async () => app[Symbol.asyncDispose]())

const counts = { easy: 1, medium: 0, hard: 0 }
const post = (body: object, headers: Record<string, string> = {}) =>
  app.call(createBatch, { params: lab.place, body: body as never, headers })

const modelKey = async (provider: string) => {
  const secret = { apiKey: 'sk-0123456789abcdef0123' }
  return (await app.call(createCredential, { body: { kind: 'model', provider, name: provider, secret } })).body.id
}

test('requires integer counts from 0 with a sum from 1 to 300', async () => {
  const wrong: object[] = [
    { easy: 0, medium: 0, hard: 0 },
    { easy: 100, medium: 100, hard: 101 },
    { easy: 301, medium: 0, hard: 0 },
    { easy: -1, medium: 2, hard: 0 },
    { easy: 1.5, medium: 0, hard: 0 },
    { easy: '1', medium: 0, hard: 0 },
    { easy: 1, medium: 0 },
    { easy: 1, medium: 0, hard: 0, extreme: 1 },
  ]
  for (const candidateCounts of wrong) {
    const answer = await post({ candidateCounts, generation: valid })
    expect(answer.status, JSON.stringify(candidateCounts)).toBe(422)
    expect(answer.body.errors[0].pointer).toMatch(/^\/candidateCounts/)
  }
  for (const candidateCounts of [counts, { easy: 100, medium: 100, hard: 100 }])
    expect((await post({ candidateCounts, generation: valid })).status).toBe(202)
})

test('requires the generation settings if credentials are stored', async () => {
  const answer = await post({ candidateCounts: counts })
  expect(answer).toMatchObject({ status: 422, body: { errors: [{ pointer: '/generation', code: 'required' }] } })
})

test('refuses values that the options do not list, with their pointer', async () => {
  const other = await modelKey('openai')
  const foreign = await app.otherWorkspace('elsewhere')
  const theirs = await app.call(createCredential, {
    params: { org: foreign.login },
    key: foreign.key,
    body: { kind: 'model', provider: 'anthropic', name: 'x', secret: { apiKey: 'sk-ant-0123456789abcdef' } },
  })
  const sandboxKey = (await lab.options()).sandboxCredentials[0].id
  const cases: [field: string, code: string, change: object][] = [
    ['authorModel', 'unknown_model', { authorModel: 'nobody/nothing' }],
    ['verifierModel', 'unknown_model', { verifierModel: 'reference' }],
    ['reasoning', 'unknown_level', { reasoning: 'enormous' }],
    ['modelAccess', 'access_not_offered', { modelAccess: 'environment', modelCredentialId: undefined }],
    ['modelAccess', 'invalid_value', { modelAccess: 'magic' }],
    ['modelCredentialId', 'required', { modelCredentialId: undefined }],
    ['modelCredentialId', 'credential_misfit', { modelCredentialId: other }],
    ['modelCredentialId', 'credential_misfit', { modelCredentialId: theirs.body.id }],
    ['modelCredentialId', 'credential_misfit', { modelCredentialId: sandboxKey }],
    ['modelCredentialId', 'invalid_format', { modelCredentialId: 'no-uuid' }],
    ['verifierCredentialId', 'credential_misfit', { verifierModel: 'openai/gpt-5.4' }],
    ['sandbox', 'unknown_sandbox', { sandbox: 'moon' }],
    ['sandbox', 'sandbox_not_offered', { sandbox: 'docker' }],
    ['sandboxCredentialId', 'credential_misfit', { sandboxCredentialId: valid.modelCredentialId }],
    ['harborEnvironment', 'unknown_sandbox', { harborEnvironment: 'moon' }],
    ['harborCredentialId', 'credential_misfit', { harborCredentialId: other }],
    ['moon', 'unknown_field', { moon: 'full' }],
  ]
  for (const [field, code, change] of cases) {
    const answer = await post({ candidateCounts: counts, generation: { ...valid, ...change } })
    expect(answer.status, field).toBe(422)
    expect(answer.body.errors, field).toContainEqual(expect.objectContaining({ pointer: `/generation/${field}`, code }))
  }
  const across = { ...valid, verifierModel: 'openai/gpt-5.4', verifierCredentialId: other, reasoning: 'medium' }
  expect((await post({ candidateCounts: counts, generation: across })).status).toBe(202)
})

test('accepts every listed option and uses built-in credentials', async () => {
  const { models, modelCredentials, sandboxes } = await lab.options()
  const { run } = (await post({ candidateCounts: counts, generation: valid })).body
  expect(run.generation.sandboxCredentialId).toMatch(/^[0-9a-f-]{36}$/)
  expect(sandboxes).toMatchObject([
    { id: 'local', available: true },
    { id: 'docker', available: false },
  ])
  for (const { catalogId, provider, reasoning } of models) {
    const key = modelCredentials.find((each: { provider: string }) => each.provider === provider).id
    for (const level of [reasoning[0], reasoning.at(-1)]) {
      const named = { ...valid, authorModel: catalogId, verifierModel: catalogId, reasoning: level }
      const answer = await post({ candidateCounts: counts, generation: { ...named, modelCredentialId: key } })
      expect(answer.status, `${catalogId} ${level}`).toBe(202)
      expect(answer.body.run.warnings[0]).toContain('self_verified')
    }
  }
})

test('the same request with the same idempotency key is one batch', async () => {
  const before = (await app.call(listBatches, { params: lab.place, query: { limit: '200' } })).body.batches.length
  const once = { 'idempotency-key': 'batch-once' }
  const first = await post({ candidateCounts: counts, generation: valid, budgetUsd: 2.5 }, once)
  expect(first.body.run.budgetUsd).toBe(2.5)
  expect((await post({ candidateCounts: counts, generation: valid, budgetUsd: 2.5 }, once)).text).toBe(first.text)
  expect((await post({ candidateCounts: counts, generation: valid }, once)).body.code).toBe('idempotency_key_reused')
  const after = await app.call(listBatches, { params: lab.place, query: { limit: '200' } })
  expect(after.body.batches).toHaveLength(before + 1)
})

test('refuses to delete a credential of an open batch', async () => {
  const id = await modelKey('anthropic')
  const { runId } = (await post({ candidateCounts: counts, generation: { ...valid, modelCredentialId: id } })).body
  const remove = () => app.call(deleteCredential, { params: { credentialId: id } })
  expect(await remove()).toMatchObject({ status: 409, body: { code: 'credential_in_use' } })
  await lab.cancel(runId)
  expect((await remove()).status).toBe(204)
})

test('answers 404 for options and batches of an unknown repository', async () => {
  const params = { owner: 'lab', name: 'nowhere' }
  expect([404, 503]).toContain((await app.call(readGenerationOptions, { params })).status)
  const answer = await app.call(createBatch, { params, body: { candidateCounts: counts } })
  expect([404, 503]).toContain(answer.status)
})

test('defaults to the keys of the server without credential storage', async () => {
  await using bare = await startGenerationApp({
    ASSAY_CREDENTIAL_STORAGE: 'off',
    ANTHROPIC_API_KEY: 'sk-ant-0123456789abcdef',
  })
  const { place, options } = await openGenerationLab(bare, { changes: { easy: 1, medium: 0, hard: 0 } })
  expect(await options()).toMatchObject({
    credentialStorage: false,
    modelAccess: ['environment', 'credential'],
    defaults: { modelAccess: 'environment' },
  })
  const answer = await bare.call(createBatch, { params: place, body: { candidateCounts: counts } })
  expect(answer).toMatchObject({
    status: 202,
    body: { run: { generation: { modelAccess: 'environment', modelCredentialId: null } } },
  })
  const { defaults, modelCredentials } = await options()
  const named = { ...defaults, modelCredentialId: modelCredentials[0].id }
  const both = await bare.call(createBatch, { params: place, body: { candidateCounts: counts, generation: named } })
  expect(both.body.errors).toMatchObject([{ pointer: '/generation/modelCredentialId', code: 'unexpected' }])
})

test('defaults to a verifier model of another provider than the author if a key is available', async () => {
  const keys = { ANTHROPIC_API_KEY: 'sk-ant-0123456789abcdef', OPENAI_API_KEY: 'sk-0123456789abcdef0123' }
  const houseOf = (catalogId: string) => catalogId.split('/')[0]
  await using bare = await startGenerationApp({ ASSAY_CREDENTIAL_STORAGE: 'off', ...keys })
  const { place, options } = await openGenerationLab(bare, { changes: { easy: 1, medium: 0, hard: 0 } })
  const { defaults } = await options()
  expect(houseOf(defaults.verifierModel)).not.toBe(houseOf(defaults.authorModel))
  expect((await bare.call(createBatch, { params: place, body: { candidateCounts: counts } })).status).toBe(202)

  await using stored = await startGenerationApp()
  const made = await openGenerationLab(stored, { changes: { easy: 1, medium: 0, hard: 0 } })
  expect((await made.options()).defaults).not.toHaveProperty('verifierCredentialId')
  const secret = { apiKey: 'sk-0123456789abcdef0123' }
  const body = { kind: 'model', provider: 'openai', name: 'openai', secret } as const
  const { id } = (await stored.call(createCredential, { body })).body
  const chosen = (await made.options()).defaults
  expect([houseOf(chosen.authorModel), houseOf(chosen.verifierModel)]).toEqual(['anthropic', 'openai'])
  expect(chosen).toMatchObject({ verifierCredentialId: id })
  expect(await made.create({ easy: 1 })).toMatchObject({ status: 202, body: { run: { warnings: [] } } })
})

test('reports that there are no defaults without any key', async () => {
  await using bare = await startGenerationApp({ ASSAY_CREDENTIAL_STORAGE: 'off' })
  const { place, options } = await openGenerationLab(bare, { changes: { easy: 1, medium: 0, hard: 0 } })
  expect(await options()).toMatchObject({ models: [], defaults: null })
  const answer = await bare.call(createBatch, { params: place, body: { candidateCounts: counts } })
  expect(answer.body.errors).toMatchObject([{ pointer: '/generation', code: 'no_defaults' }])
})
