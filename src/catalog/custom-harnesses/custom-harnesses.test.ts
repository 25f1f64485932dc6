import { afterAll, beforeAll, expect, test } from 'vitest'
import type { z } from 'zod'
import { type TestApp, testApp } from '../../../test/support/app.ts'
import { type Comparing, comparing, QUICK, scriptedEngine } from '../../../test/support/comparisons.ts'
import { inBenchmark } from '../../comparisons/schema.ts'
import { createCredential } from '../../credentials/schema.ts'
import { findChosenHarness } from '../harnesses.ts'
import { addModel } from '../schema.ts'
import { addHarness, listHarnesses, type NewHarness, removeHarness } from './schema.ts'

let app: TestApp
let lab: Comparing
const engine = scriptedEngine()
beforeAll(async () => {
  app = await testApp()
  lab = await comparing(app, engine)
})
afterAll(async () => app[Symbol.asyncDispose]())

let made = 0
const wish = (over: object = {}): z.input<typeof NewHarness> => ({
  ...{
    id: `custom/agent-${++made}`,
    name: 'Agent',
    version: '1.0',
    protocols: ['openai-chat'],
    levels: { low: 'low' },
  },
  command: ['/opt/agent', '{model}'],
  ...over,
})
const add = (body: z.input<typeof NewHarness>) => app.call(addHarness, { body })
const slug = ({ id }: { id: string }) => ({ params: { slug: id.slice('custom/'.length) } })
const inCatalog = async () => (await app.call(inBenchmark.catalog, { params: QUICK })).body

test('a harness is described, listed, and in the catalog in its newest version', async () => {
  const body = wish()
  expect(await add(body)).toMatchObject({ status: 201, body: { ...body, env: {}, files: [] } })
  expect(await add(body)).toMatchObject({ status: 200 })
  expect(await add({ ...body, command: ['other'] })).toMatchObject({ status: 409, body: { code: 'harness_exists' } })
  expect(await add({ ...body, command: ['other'], version: '1.1' })).toMatchObject({ status: 201 })
  const versions = (await app.call(listHarnesses)).body.harnesses.map(({ version }: { version: string }) => version)
  expect(versions.slice(0, 2)).toEqual(['1.1', '1.0'])
  const { harnesses } = await inCatalog()
  expect(harnesses.filter(({ id }: { id: string }) => id === body.id)).toEqual([
    { id: body.id, name: 'Agent', version: '1.1', protocols: ['openai-chat'] },
  ])
})

test.each([
  [{ id: 'house/agent' }, '/id'],
  [{ id: 'custom/a/b' }, '/id'],
  [{ version: '' }, '/version'],
  [{ protocols: [] }, '/protocols'],
  [{ levels: { deep: 'x' } }, '/levels'],
  [{ command: [] }, '/command'],
  [{ env: { 'A=B': 'x' } }, '/env'],
  [{ files: [{ path: '../etc/passwd', text: '' }] }, '/files/0/path'],
  [{ files: [{ path: '/etc/passwd', text: '' }] }, '/files/0/path'],
  [{ files: [{ path: 'a/./b', text: '' }] }, '/files/0/path'],
  [{ files: [{ path: 'instruction.md', text: '' }] }, '/files/0/path'],
])('%j is refused', async (over, pointer) => {
  const { status, body } = await add(wish(over))
  expect(status).toBe(422)
  expect(body.errors[0].pointer).toContain(pointer)
})

test('it is compared in the version that was chosen, and cannot be removed meanwhile', async () => {
  const body = wish()
  await add(body)
  const catalogId = 'custom/house'
  await app.call(addModel, {
    body: {
      ...{
        catalogId,
        name: 'house-v1',
        label: 'House',
        protocol: 'openai-chat',
        baseUrl: 'https://models.example.com',
      },
      ...{ reasoningLevels: ['low', 'high'], defaultReasoningLevel: 'low', prices: { input: 1, output: 2 } },
    },
  })
  const secret = { apiKey: 'sk-house-0123456789' }
  const { body: credential } = await app.call(createCredential, {
    body: { kind: 'model', provider: catalogId, name: 'Own', secret },
  })
  const choice = { catalogId, credentialId: credential.id, harnesses: [body.id] }
  const created = await lab.create({ models: [choice] })
  expect(created).toMatchObject({
    status: 202,
    body: { settings: [{ harness: body.id, harnessVersion: '1.0', custom: true }] },
  })
  expect(await app.call(removeHarness, slug(body))).toMatchObject({ status: 409, body: { code: 'harness_in_use' } })
  await add({ ...body, version: '2.0', command: ['new'] })
  await lab.work()
  expect(engine.orders.at(-1)).toMatchObject({ harness: body.id, harnessVersion: '1.0' })
  const far = await lab.create({ models: [{ ...choice, reasoningLevel: 'high' }] })
  expect(far).toMatchObject({ status: 422, body: { errors: [{ code: 'level_out_of_reach' }] } })

  expect(await app.call(removeHarness, slug(body))).toMatchObject({ status: 204 })
  expect(await app.call(removeHarness, slug(body))).toMatchObject({ status: 404 })
  expect(await add(body)).toMatchObject({ status: 409, body: { code: 'harness_name_spent' } })
  const { rows } = await app.database.pool.query('select id from workspaces where login = $1', ['local'])
  const chosen = await findChosenHarness(app.database.db, rows[0].id, { id: body.id, version: '1.0' })
  expect(chosen).toMatchObject({ id: body.id, version: '1.0' })
})

test('another workspace has neither the harness nor its name', async () => {
  const other = await app.otherWorkspace('neighbour')
  const body = wish()
  await add(body)
  const params = { ...slug(body).params, org: other.login }
  expect(await app.call(removeHarness, { params, key: other.key })).toMatchObject({ status: 404 })
  expect((await app.call(listHarnesses, { params, key: other.key })).body.harnesses).toEqual([])
  expect(await app.call(addHarness, { params, key: other.key, body })).toMatchObject({ status: 201 })
})
