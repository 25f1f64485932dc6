import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { type ComparisonLab, openComparisonLab, QUICK } from '../../test/support/comparisons.ts'
import { startServer } from '../../test/support/loopback-servers.ts'
import { inBenchmark } from '../comparisons/schema.ts'
import { checkCredential, createCredential, listCredentialProviders } from '../credentials/schema.ts'
import { findModel } from './models.ts'
import { addModel, listModels, type NewModel, removeModel } from './schema.ts'

let app: TestApp
let lab: ComparisonLab
beforeAll(async () => {
  app = await testApp()
  lab = await openComparisonLab(app)
})
afterAll(async () => app[Symbol.asyncDispose]())

let made = 0
let guarded: { key: string; login: string } | undefined
const options = (over: object = {}): z.input<typeof NewModel> => ({
  catalogId: `custom/model-${++made}`,
  name: 'model-v1',
  label: 'Model',
  protocol: 'openai-chat',
  baseUrl: 'https://models.example.com/v1',
  reasoningLevels: ['none', 'low'],
  defaultReasoningLevel: 'low',
  prices: { input: 0.5, output: 2, cacheRead: 0.05 },
  ...over,
})
const add = (body: ReturnType<typeof options>) => app.call(addModel, { body })
const slug = ({ catalogId }: { catalogId: string }) => ({ params: { slug: catalogId.slice('custom/'.length) } })
const inCatalog = async (catalogId: string) => {
  const { body } = await app.call(inBenchmark.catalog, { params: QUICK })
  return body.models.find((model: { catalogId: string }) => model.catalogId === catalogId)
}

describe('adding', () => {
  test('a model is added, listed, and in the catalog with its own provider', async () => {
    const body = options()
    const added = await add(body)
    expect(added).toMatchObject({ status: 201, body: { ...body, contextTokens: 128_000, outputTokens: 32_000 } })
    const { body: list } = await app.call(listModels)
    expect(list.models[0]).toEqual(added.body)
    expect(await inCatalog(body.catalogId)).toMatchObject({
      custom: true,
      provider: body.catalogId,
      name: 'model-v1',
      credentials: [],
      reasoningLevels: ['none', 'low'],
      defaultReasoningLevel: 'low',
      prices: { input: 0.5, output: 2, cacheRead: 0.05, cacheWrite: 0.5 },
    })
  })

  test('adding the same model is a no-op, a new price is a new version, another model is refused', async () => {
    const body = options()
    await add(body)
    expect(await add(body)).toMatchObject({ status: 200, body })
    expect(await add({ ...body, prices: { ...body.prices, input: 0.4 } })).toMatchObject({ status: 201 })
    const { rows } = await app.database.pool.query(
      `select version, prices from custom_model_prices join custom_models on id = model where slug = $1 order by version`,
      [slug(body).params.slug],
    )
    expect(rows).toMatchObject([
      { version: 1, prices: { input: 0.5 } },
      { version: 2, prices: { input: 0.4 } },
    ])
    expect((await inCatalog(body.catalogId)).prices.input).toBe(0.4)
    for (const over of [
      { name: 'model-v2' },
      { baseUrl: 'https://other.example.com' },
      { protocol: 'gemini' as const },
    ])
      expect(await add({ ...body, ...over })).toMatchObject({ status: 409, body: { code: 'model_exists' } })
  })

  test.each([
    [
      { input: 2, output: 8 },
      { cacheRead: 2, cacheWrite5m: 2, cacheWrite1h: 2 },
    ],
    [
      { input: 2, output: 8, cacheRead: 0 },
      { cacheRead: 0, cacheWrite5m: 2, cacheWrite1h: 2 },
    ],
    [
      { input: 2, output: 8, cacheWrite: 3 },
      { cacheRead: 2, cacheWrite5m: 3, cacheWrite1h: 3 },
    ],
  ])('%j: a price of the cache that is left out is that of other input', async (prices, filled) => {
    const body = options({ prices })
    await add(body)
    const { rows } = await app.database.pool.query('select id from workspaces where login = $1', ['local'])
    const model = await findModel(app.database.db, rows[0].id, body.catalogId)
    expect(model?.prices).toEqual({ input: 2, output: 8, ...filled })
  })

  test('concurrent requests add one model', async () => {
    const body = options()
    const statuses = (await Promise.all(Array.from({ length: 6 }, () => add(body)))).map(({ status }) => status)
    expect(statuses.sort()).toEqual([200, 200, 200, 200, 200, 201])
  })

  test.each([
    ['http://models.example.com/v1', 'scheme_not_allowed'],
    ['https://93.184.216.34\\@127.0.0.1/v1', 'not_canonical'],
    ['https://models.example.com./v1', 'not_canonical'],
    ['https://127.0.0.1/v1', 'host_not_public'],
    ['https://[::1]/v1', 'host_not_public'],
    ['https://169.254.169.254/latest', 'host_not_public'],
    ['https://localhost/v1', 'host_not_public'],
    ['https://10.0.0.7:8000/v1', 'host_not_public'],
    ['https://user:pass@models.example.com/v1', 'credentials_in_url'],
    ['https://models.example.com:22/v1', 'port_not_allowed'],
  ])('an address that is not a public one is refused: %s', async (baseUrl, code) => {
    guarded ??= await app.otherWorkspace('guarded')
    const { key, login } = guarded
    expect(await app.call(addModel, { key, params: { org: login }, body: options({ baseUrl }) })).toMatchObject({
      status: 422,
      body: { errors: [{ pointer: '/baseUrl', code }] },
    })
  })

  test.each([
    ['http://127.0.0.1:11434/v1', undefined],
    ['http://localhost:11434/v1', undefined],
    ['http://[::1]:8080/v1', undefined],
    ['https://models.example.com/v1', undefined],
    ['http://10.0.0.7:8000/v1', 'host_not_public'],
    ['http://169.254.169.254/latest', 'host_not_public'],
    ['http://user:pass@127.0.0.1:8000/v1', 'credentials_in_url'],
    ['http://127.0.0.1:22/v1', 'port_not_allowed'],
  ])('the owner of the machine may use model servers on it, and no others: %s', async (baseUrl, code) => {
    const added = await add(options({ baseUrl }))
    if (code === undefined) expect(added.status).toBe(201)
    else expect(added).toMatchObject({ status: 422, body: { errors: [{ pointer: '/baseUrl', code }] } })
  })

  test('the operator allows networks for chosen workspaces, or none', async () => {
    await using chosen = await testApp({ ASSAY_MODEL_NETWORKS: 'Team=10.0.0.0/8,team=192.168.7.7' })
    const team = await chosen.otherWorkspace('team')
    const addFor = (key: string, org: string, baseUrl: string) =>
      chosen.call(addModel, { key, params: { org }, body: options({ baseUrl }) })
    expect((await addFor(team.key, team.login, 'http://10.1.2.3:8000/v1')).status).toBe(201)
    expect((await addFor(team.key, team.login, 'http://192.168.7.7:8000/v1')).status).toBe(201)
    expect((await addFor(team.key, team.login, 'http://127.0.0.1:8000/v1')).status).toBe(422)
    expect((await addFor(chosen.adminKey, 'local', 'http://127.0.0.1:8000/v1')).status).toBe(422)
    await using none = await testApp({ ASSAY_MODEL_NETWORKS: 'off' })
    const refused = await none.call(addModel, { body: options({ baseUrl: 'http://127.0.0.1:8000/v1' }) })
    expect(refused).toMatchObject({ status: 422, body: { errors: [{ code: 'scheme_not_allowed' }] } })
  })

  test.each([
    [{ catalogId: 'house/model' }, '/catalogId'],
    [{ catalogId: 'custom/../x' }, '/catalogId'],
    [{ catalogId: 'custom/Model' }, '/catalogId'],
    [{ reasoningLevels: [] }, '/reasoningLevels'],
    [{ reasoningLevels: ['low', 'low'] }, '/reasoningLevels'],
    [{ reasoningLevels: ['deep'] }, '/reasoningLevels/0'],
    [{ defaultReasoningLevel: 'max' }, '/defaultReasoningLevel'],
    [{ prices: { input: -1, output: 1 } }, '/prices/input'],
    [{ prices: { input: 1 } }, '/prices/output'],
    [{ protocol: 'smtp' }, '/protocol'],
    [{ baseUrl: 'nowhere' }, '/baseUrl'],
  ])('%j is refused', async (over, pointer) => {
    const { status, body } = await add(options(over))
    expect(status).toBe(422)
    expect(body.errors).toMatchObject([{ pointer }])
  })
})

describe('removing', () => {
  test('a removed model is not listed, and its id cannot be reused', async () => {
    const body = options()
    await add(body)
    expect(await app.call(removeModel, slug(body))).toMatchObject({ status: 204 })
    expect(await app.call(removeModel, slug(body))).toMatchObject({ status: 404 })
    expect(await inCatalog(body.catalogId)).toBeUndefined()
    expect(await add(body)).toMatchObject({ status: 409, body: { code: 'model_name_spent' } })
    const { rows } = await app.database.pool.query('select id from workspaces where login = $1', ['local'])
    expect(await findModel(app.database.db, rows[0].id, body.catalogId)).toBeUndefined()
    const before = await findModel(app.database.db, rows[0].id, body.catalogId, { alsoRemoved: true })
    expect(before).toMatchObject({ baseUrl: body.baseUrl, prices: { input: 0.5 } })
  })

  test('a model in use by a comparison cannot be removed', async () => {
    const body = options()
    await add(body)
    const { body: created } = await lab.create()
    await app.database.pool.query('update comparison_settings set catalog_id = $1', [body.catalogId])
    expect(await app.call(removeModel, slug(body))).toMatchObject({ status: 409, body: { code: 'model_in_use' } })
    await lab.cancel(created.id)
    expect(await app.call(removeModel, slug(body))).toMatchObject({ status: 204 })
  })

  test('another workspace does not see the model and can use its name', async () => {
    const other = await app.otherWorkspace('neighbour')
    const body = options()
    await add(body)
    const there = { ...slug(body), key: other.key }
    const params = { ...there.params, org: other.login }
    expect(await app.call(removeModel, { ...there, params })).toMatchObject({ status: 404 })
    expect((await app.call(listModels, { params, key: other.key })).body.models).toEqual([])
    expect(await app.call(addModel, { params, key: other.key, body })).toMatchObject({ status: 201 })
  })
})

describe('credentials', () => {
  const secret = { apiKey: 'sk-custom-0123456789' }
  const credential = (provider: string) => ({ body: { kind: 'model' as const, provider, name: 'Own', secret } })

  test('a model accepts credentials of its own provider until it is removed', async () => {
    const body = options()
    expect(await app.call(createCredential, credential(body.catalogId))).toMatchObject({ status: 422 })
    await add(body)
    const created = await app.call(createCredential, credential(body.catalogId))
    expect(created).toMatchObject({ status: 201, body: { provider: body.catalogId, hint: '6789' } })
    expect((await inCatalog(body.catalogId)).credentials).toEqual([{ id: created.body.id, name: 'Own' }])
    const { body: listed } = await app.call(listCredentialProviders)
    expect(listed.providers.map(({ provider }: { provider: string }) => provider)).toContain(body.catalogId)
    await app.call(removeModel, slug(body))
    expect(await app.call(createCredential, credential(body.catalogId))).toMatchObject({ status: 422 })
  })

  test('its address is checked behind the outbound guard, unless the operator has set another', async () => {
    await using server = await startServer((request, response) => {
      response.writeHead(
        request.headers.authorization === `Bearer ${secret.apiKey}` && request.url === '/v9/models' ? 200 : 401,
      )
      response.end()
    })
    const environment = { ASSAY_GATEWAY_UPSTREAM_CUSTOM_HOUSE_1: `http://127.0.0.1:${server.port}/v9` }
    await using own = await testApp(environment)
    const check = async (catalogId: string, baseUrl: string) => {
      await own.call(addModel, { body: options({ catalogId, baseUrl }) })
      const { body } = await own.call(createCredential, credential(catalogId))
      return (await own.call(checkCredential, { params: { credentialId: body.id } })).body
    }
    expect(await check('custom/house.1', 'https://models.example.com/v1')).toMatchObject({ ok: true })
    expect(await check('custom/rebound', 'https://rebound.invalid/v1')).toMatchObject({ ok: false })
  })
})
