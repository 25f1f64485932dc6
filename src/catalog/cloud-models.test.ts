import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { CLOUD_FIXTURES } from '../../test/support/gateway/clouds/cloud-fixtures.ts'
import type { FakeCloud } from '../../test/support/gateway/clouds/cloud-front.ts'
import { checkCredential, createCredential, listCredentialProviders } from '../credentials/schema.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { openModelConnection, resolveModelTerms } from '../gateway/model-connection.ts'
import { mini } from '../harnesses/mini.ts'
import { startModelGateway } from '../main.ts'
import { findModel } from './models.ts'
import { addModel, listModels } from './schema.ts'

let app: TestApp
let gateway: Gateway
beforeAll(async () => {
  app = await testApp({ ASSAY_MODEL_NETWORKS: 'local=127.0.0.0/8' })
  gateway = await startModelGateway(app.tools, { host: '127.0.0.1', port: 0 })
})
afterAll(async () => {
  await gateway.stop(0)
  await app[Symbol.asyncDispose]()
})

let made = 0
const newModel = (changes: object) => ({
  catalogId: `custom/cloud-${++made}`,
  label: 'Model',
  reasoningLevels: ['none' as const],
  defaultReasoningLevel: 'none' as const,
  prices: { input: 3, output: 15 },
  ...changes,
})

describe.each(CLOUD_FIXTURES)('$name', ({ cloud, protocol, model, fields, start, baseUrl, secret, wrongSecrets }) => {
  let fake: FakeCloud
  const body = newModel({ name: model, protocol, cloud })
  const store = (values: object) =>
    app.call(createCredential, {
      body: { kind: 'model', provider: body.catalogId, name: 'Key', secret: { ...secret(fake.url), ...values } },
    })
  beforeAll(async () => {
    fake = await start({ models: [model], tasks: [{ match: 'look', turns: [{ say: 'Done so.' }] }] })
    Object.assign(body, { baseUrl: baseUrl(fake.url) })
    expect(await app.call(addModel, { body: body as never })).toMatchObject({ status: 201, body: { cloud } })
  })
  afterAll(async () => fake[Symbol.asyncDispose]())

  test('a model is listed with its cloud, and takes the fields of the cloud as its credential', async () => {
    const { body: list } = await app.call(listModels)
    expect(list.models).toContainEqual(expect.objectContaining({ catalogId: body.catalogId, cloud }))
    const { body: known } = await app.call(listCredentialProviders)
    const own = known.providers.find(({ provider }: { provider: string }) => provider === body.catalogId)
    const names = own?.fields.map(({ name, required }: { name: string; required: boolean }) =>
      required ? name : `[${name}]`,
    )
    expect(names).toEqual(fields)
    const invalid = await app.call(createCredential, {
      body: { kind: 'model', provider: body.catalogId, name: 'Key', secret: { key: 'sk-0123456789' } },
    })
    const required = fields.filter((name) => !name.startsWith('['))
    expect(invalid).toMatchObject({ status: 422 })
    expect(invalid.body.errors).toHaveLength(1 + required.length)
  })

  test('a valid credential is accepted by the check, and a wrong one is not', async () => {
    const check = async (values: object) => {
      const { body: credential } = await store(values)
      return (await app.call(checkCredential, { params: { credentialId: credential.id } })).body
    }
    expect(await check({})).toMatchObject({ ok: true, detail: `${body.catalogId} accepted the credential.` })
    expect(await check(wrongSecrets[0]?.secret(fake.url) ?? {})).toMatchObject({
      ok: false,
      detail: expect.stringContaining('refused the credential'),
    })
    expect(fake.calls()).toEqual([])
  })

  test('a harness calls the model with the stored credential, and the ledger has the cost', async () => {
    const { body: credential } = await store({})
    const { rows } = await app.database.pool.query('select id from workspaces where login = $1', ['local'])
    const workspaceId = rows[0].id
    const found = await findModel(app.database.db, workspaceId, body.catalogId)
    if (!found) throw new Error('Model not found')
    const { access, terms } = resolveModelTerms(found, 'none', mini)
    const grant = { workspaceId, grantee: `trial ${body.catalogId}`, credentialId: credential.id, terms }
    const limits = { budgetMicros: null, callsMax: 5, expiresAt: new Date(Date.now() + 60_000) }
    const place = { ledger: app.tools.ledger, gatewayUrl: gateway.url }
    const { trialModel, close } = await openModelConnection(place, { access, ...grant, ...limits })
    const messages = [{ role: 'user' as const, text: 'Please look.' }]
    const reply = await trialModel.ask?.({ system: 's', messages, signal: new AbortController().signal })
    expect(reply?.text).toBe('Done so.')
    expect(await close()).toMatchObject({ usage: fake.calls()[0]?.usage, costSource: 'metered' })
  })

  test('no answer and no log shows the secret', async () => {
    const { text } = await store({})
    const values = Object.values(secret(fake.url)).filter((value) => value.length > 12)
    for (const value of values) expect(text + app.logged()).not.toContain(value)
  })
})

test('a protocol that the cloud does not have is refused', async () => {
  const body = newModel({ name: 'm', protocol: 'gemini', cloud: 'bedrock', baseUrl: 'https://bedrock.example.com' })
  expect(await app.call(addModel, { body: body as never })).toMatchObject({
    status: 422,
    body: { errors: [{ pointer: '/protocol', code: 'protocol_not_in_cloud' }] },
  })
})

test('the cloud of a model cannot be changed', async () => {
  const shape = { name: 'm', protocol: 'openai-chat', baseUrl: 'https://bedrock.example.com' }
  const body = newModel(shape)
  await app.call(addModel, { body: body as never })
  expect(await app.call(addModel, { body: { ...body, cloud: 'bedrock' } as never })).toMatchObject({
    status: 409,
    body: { code: 'model_exists' },
  })
})
