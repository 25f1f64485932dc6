import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { type ComparisonLab, openComparisonLab, QUICK } from '../../test/support/comparisons.ts'
import { addModel, removeModel } from '../catalog/schema.ts'
import { createCredential } from '../credentials/schema.ts'
import { inBenchmark } from './schema.ts'

const catalogId = 'custom/house'
let app: TestApp
let lab: ComparisonLab
let credentialId: string
beforeAll(async () => {
  app = await testApp()
  lab = await openComparisonLab(app)
  await app.call(addModel, {
    body: {
      catalogId,
      name: 'house-v1',
      label: 'House',
      protocol: 'gemini',
      baseUrl: 'https://models.example.com',
      reasoningLevels: ['low', 'xhigh'],
      defaultReasoningLevel: 'low',
      prices: { input: 1, output: 2 },
    },
  })
  const secret = { apiKey: 'sk-house-0123456789' }
  const options = { body: { kind: 'model' as const, provider: catalogId, name: 'Own', secret } }
  credentialId = (await app.call(createCredential, options)).body.id
})
afterAll(async () => app[Symbol.asyncDispose]())

const choose = (over: object) => lab.create({ models: [{ catalogId, credentialId, harnesses: ['mini'], ...over }] })
const errorsOf = async (over: object) => (await choose(over)).body.errors

test('a custom model runs at its default level, and its settings are marked custom', async () => {
  const { status, body } = await choose({})
  expect(status).toBe(202)
  expect(body.settings).toMatchObject([
    { id: `${catalogId}|mini|low`, provider: catalogId, custom: true, reasoningLevel: 'low', harness: 'mini' },
  ])
  expect(await choose({ reasoningLevel: 'xhigh' })).toMatchObject({ status: 202 })
})

test('a level that the model does not have is reported exactly once', async () => {
  expect(await errorsOf({ reasoningLevel: 'high', harnesses: ['mini', 'pi'] })).toEqual([
    { pointer: '/models/0/reasoningLevel', code: 'unknown_level', message: 'This model has the levels low, xhigh.' },
  ])
})

test('a level that a harness cannot request exactly is rejected for this harness', async () => {
  expect(await errorsOf({ reasoningLevel: 'xhigh', harnesses: ['mini', 'pi'] })).toEqual([
    {
      pointer: '/models/0/harnesses/1',
      code: 'level_out_of_reach',
      message: 'pi cannot use this model at the reasoning level xhigh, only at low.',
    },
  ])
})

test('a harness of another protocol and an unknown harness are rejected', async () => {
  for (const id of ['codex', 'oracle', 'no-such-one'])
    expect(await errorsOf({ harnesses: [id] })).toMatchObject([
      { pointer: '/models/0/harnesses/0', code: 'unknown_harness' },
    ])
})

test('a credential of another provider is rejected', async () => {
  expect(await errorsOf({ credentialId: lab.reference })).toMatchObject([
    { pointer: '/models/0/credentialId', code: 'credential_misfit' },
  ])
})

test('the catalog lists the levels that each harness can request', async () => {
  const { body } = await app.call(inBenchmark.catalog, { params: QUICK })
  const find = (id: string) => body.models.find((model: { catalogId: string }) => model.catalogId === id)
  expect(find(catalogId).harnessLevels).toMatchObject({ mini: ['low', 'xhigh'], pi: ['low'] })
  expect(find('reference')).toMatchObject({ harnesses: ['oracle', 'nop'], reasoningLevels: ['none'] })
  expect(body.models.length).toBeGreaterThan(25)
  expect(body.harnesses.map(({ id }: { id: string }) => id)).toContain('mini')
})

test('repeating a request returns the same comparison even after its model was removed', async () => {
  const body = lab.body({ models: [{ catalogId, credentialId, harnesses: ['mini'] }] })
  const ask = () => app.call(inBenchmark.create, { params: QUICK, body })
  expect(await ask()).toMatchObject({ status: 202 })
  await lab.work()
  expect(await app.call(removeModel, { params: { slug: 'house' } })).toMatchObject({ status: 204 })
  expect(await ask()).toMatchObject({ status: 202, body: { id: body.id } })
  expect(await errorsOf({})).toMatchObject([{ pointer: '/models/0/catalogId', code: 'unknown_model' }])
})
