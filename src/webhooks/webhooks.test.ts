import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { type Certificate, trustedCertificate } from '../../test/support/loopback-servers.ts'
import { createWebhookDriver, HOST, isSignedWith, startReceiver } from '../../test/support/webhooks/receiver.ts'
import { rotateMasterKey } from '../credentials/rotate-master-key.ts'
import * as schema from './schema.ts'

let app: TestApp
let tls: Certificate
beforeAll(async () => {
  app = await testApp()
  tls = await trustedCertificate([HOST])
})
afterAll(() => app[Symbol.asyncDispose]())

const URL = 'https://hooks.example.org/secret-path?token=hush-hush'
const create = (body: object, over: object = {}) => app.call(schema.createWebhook, { body: body as never, ...over })
const at = (webhookId: string) => ({ params: { webhookId } })

test('the secret is shown once, and neither secret nor URL is shown again', async () => {
  const { status, body } = await create({ url: URL, description: 'Team room' })
  expect(status).toBe(201)
  const { secret, ...webhook } = body
  expect(secret).toMatch(/^whsec_[\w+/]{43}=$/)
  expect(webhook).toEqual({
    id: expect.any(String),
    origin: 'https://hooks.example.org',
    description: 'Team room',
    events: [...schema.EVENTS].sort(),
    enabled: true,
    disabledReason: null,
    failingSince: null,
    createdAt: expect.any(String),
  })
  const read = await app.call(schema.readWebhook, at(webhook.id))
  expect(read.body).toEqual(webhook)
  expect((await app.call(schema.listWebhooks)).body.webhooks[0]).toEqual(webhook)
  const { rows } = await app.database.pool.query(
    'select w::text as row, a::text as deed from webhooks w, audit_events a',
  )
  const everything = JSON.stringify(rows) + app.logged()
  for (const hidden of ['hush-hush', 'secret-path', secret, secret.slice('whsec_'.length)])
    expect(everything).not.toContain(hidden)
  expect(everything).toContain('webhook.created')
})

test.each([
  ['http://hooks.example.org/', 'scheme_not_allowed'],
  ['https://93.184.216.34\\@127.0.0.1/in', 'not_canonical'],
  ['https://hooks.example.com./in', 'not_canonical'],
  ['https://Hooks.example.com/in', 'not_canonical'],
  ['https://localhost/', 'host_not_public'],
  ['https://10.0.0.1/', 'host_not_public'],
  ['https://[::ffff:169.254.169.254]/', 'host_not_public'],
  ['https://user:word@hooks.example.org/', 'credentials_in_url'],
  ['https://hooks.example.org:25/', 'port_not_allowed'],
  ['no address', 'invalid_url'],
])('%s is rejected: %s', async (url, code) => {
  const { status, body } = await create({ url })
  expect({ status, body }).toMatchObject({ status: 422, body: { code: 'url_refused', errors: [{ code }] } })
  const { body: webhook } = await create({ url: URL })
  const changed = await app.call(schema.updateWebhook, { ...at(webhook.id), body: { url } })
  expect(changed).toMatchObject({ status: 422, body: { code: 'url_refused' } })
  await app.call(schema.deleteWebhook, at(webhook.id))
})

test('webhooks of other workspaces are 404, and write keys cannot change webhooks', async () => {
  const { body: webhook } = await create({ url: URL })
  const stranger = await app.otherWorkspace('stranger')
  const [none, theirs] = [randomUUID(), { org: 'stranger', webhookId: webhook.id }]
  for (const endpoint of [schema.readWebhook, schema.listDeliveries, schema.testWebhook, schema.deleteWebhook]) {
    expect((await app.call(endpoint, at(none))).status).toBe(404)
    expect((await app.call(endpoint, { params: theirs, key: stranger.key })).status).toBe(404)
  }
  const lost = { webhookId: webhook.id, deliveryId: none }
  for (const endpoint of [schema.readDelivery, schema.redeliver])
    expect((await app.call(endpoint, { params: lost })).status).toBe(404)
  for (const body of [
    { url: URL, events: [] },
    { url: URL, events: ['trial.ended'] },
    { url: URL, more: 1 },
  ])
    expect((await create(body)).status).toBe(422)
})

test('a workspace has at most twenty webhooks', async () => {
  const { key } = await app.otherWorkspace('many')
  const more = () => create({ url: URL }, { params: { org: 'many' }, key })
  const answers = await Promise.all(Array.from({ length: 25 }, more))
  const statuses = answers.map(({ status }) => status).sort()
  expect(statuses).toEqual([...new Array(20).fill(201), ...new Array(5).fill(409)])
  expect(answers.find(({ status }) => status === 409)?.body.code).toBe('too_many_webhooks')
})

test('without credential storage webhooks cannot be created and secrets cannot be rotated', async () => {
  await using off = await testApp({ ASSAY_CREDENTIAL_STORAGE: 'off' })
  const storageOff = { status: 409, body: { code: 'credential_storage_off' } }
  expect(await off.call(schema.createWebhook, { body: { url: URL } })).toMatchObject(storageOff)
  const { body } = await create({ url: URL })
  await copyRow(off, 'master_keys', 'id = (select master_key_id from webhooks where id = $1)', body.id)
  await copyRow(off, 'webhooks', 'id = $1', body.id)
  expect(await off.call(schema.updateWebhook, { ...at(body.id), body: { newSecret: true } })).toMatchObject(storageOff)
})

/** As it would be there if the storage had been on before. */
async function copyRow(to: TestApp, table: string, where: string, id: string): Promise<void> {
  const { rows } = await app.database.pool.query(`select to_jsonb(t) as row from ${table} t where ${where}`, [id])
  const own = await to.database.pool.query('select id from workspaces limit 1')
  const row = JSON.stringify({ ...rows[0].row, workspace_id: own.rows[0].id })
  await to.database.pool.query(`insert into ${table} select * from jsonb_populate_record(null::${table}, $1)`, [row])
}

test('private addresses are allowed if the operator permits them', async () => {
  await using own = await testApp({ ASSAY_WEBHOOKS_PRIVATE: '1' })
  expect((await own.call(schema.createWebhook, { body: { url: 'http://127.0.0.1:9/in' } })).status).toBe(201)
})

describe('a change', () => {
  test('of the secret shows the new one once, and both sign for a day', async () => {
    await using receiver = await startReceiver(tls)
    const hooks = createWebhookDriver(app)
    const webhook = await hooks.create(receiver.url)
    const { body } = await app.call(schema.updateWebhook, { ...at(webhook.id), body: { newSecret: true } })
    expect(body.secret).not.toBe(webhook.secret)
    await hooks.test(webhook.id)
    await hooks.send()
    const [message] = receiver.received
    expect(message && [webhook.secret, body.secret].map((secret) => isSignedWith(secret, message))).toEqual([
      true,
      true,
    ])
    expect(message && isSignedWith('whsec_AAAA', message)).toBe(false)
    await app.call(schema.deleteWebhook, at(webhook.id))
  })

  test('of the URL keeps the secret, and both survive a rotation of the master key', async () => {
    await using receiver = await startReceiver(tls)
    const hooks = createWebhookDriver(app)
    const webhook = await hooks.create('https://hooks.example.org/old')
    const options = { url: receiver.url, description: 'Moved', events: ['release.published' as const] }
    const { body } = await app.call(schema.updateWebhook, { ...at(webhook.id), body: options })
    expect(body).toMatchObject({
      origin: `https://${HOST}:${receiver.port}`,
      description: 'Moved',
      events: options.events,
    })
    expect(body).not.toHaveProperty('secret')
    const { broken } = await rotateMasterKey({ db: app.database.db, dataFolder: app.tools.config.dataFolder })
    expect(broken).toEqual([])
    await hooks.test(webhook.id)
    await hooks.send()
    expect(receiver.received.map((one) => isSignedWith(webhook.secret, one))).toEqual([true])
    await app.call(schema.deleteWebhook, at(webhook.id))
  })

  test('to disabled stops deliveries, tests and redeliveries until it is enabled', async () => {
    await using receiver = await startReceiver(tls)
    const hooks = createWebhookDriver(app)
    const webhook = await hooks.create(receiver.url)
    const waiting = await hooks.test(webhook.id)
    const set = (enabled: boolean) => app.call(schema.updateWebhook, { ...at(webhook.id), body: { enabled } })
    expect((await set(false)).body).toMatchObject({ enabled: false, disabledReason: 'asked' })
    await hooks.send()
    expect(receiver.received).toEqual([])
    expect(await hooks.deliveries(webhook.id)).toMatchObject([{ id: waiting.id, state: 'failed' }])
    const params = { webhookId: webhook.id, deliveryId: waiting.id }
    for (const endpoint of [schema.testWebhook, schema.redeliver])
      expect(await app.call(endpoint, { params })).toMatchObject({ status: 409, body: { code: 'webhook_disabled' } })
    expect((await set(true)).body).toMatchObject({ enabled: true, disabledReason: null })
    expect((await app.call(schema.redeliver, { params })).status).toBe(202)
    await hooks.send()
    expect(receiver.received.map(({ headers }) => headers['webhook-id'])).toEqual([waiting.id])
    await app.call(schema.deleteWebhook, at(webhook.id))
  })
})

test('deleting a webhook deletes its pending deliveries', async () => {
  await using receiver = await startReceiver(tls)
  const hooks = createWebhookDriver(app)
  const webhook = await hooks.create(receiver.url)
  await hooks.test(webhook.id)
  expect((await app.call(schema.deleteWebhook, at(webhook.id))).status).toBe(204)
  await hooks.send()
  expect(receiver.received).toEqual([])
})
