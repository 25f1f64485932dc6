import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import {
  type Certificate,
  PUBLIC,
  startServer,
  trustedCertificate,
  waitForHangUp,
} from '../../test/support/loopback-servers.ts'
import { createWebhookDriver, HOST, isSignedWith, startReceiver } from '../../test/support/webhooks/receiver.ts'
import { listEvents } from '../workspaces/audit.ts'
import * as schema from './schema.ts'

let app: TestApp
let tls: Certificate
beforeAll(async () => {
  app = await testApp()
  tls = await trustedCertificate([HOST])
})
afterAll(() => app[Symbol.asyncDispose]())

/** A webhook with a receiver of its own, which gives way to the next test's. */
async function hooked(resolve?: Parameters<typeof createWebhookDriver>[1], timeoutMs?: number) {
  const receiver = await startReceiver(tls)
  const hooks = createWebhookDriver(app, resolve, timeoutMs)
  const webhook = await hooks.create(receiver.url)
  const deliveryOf = async (deliveryId: string) =>
    (await app.call(schema.readDelivery, { params: { webhookId: webhook.id, deliveryId } })).body
  return {
    receiver,
    hooks,
    webhook,
    deliveryOf,
    redeliver: (deliveryId: string) => app.call(schema.redeliver, { params: { webhookId: webhook.id, deliveryId } }),
    async [Symbol.asyncDispose]() {
      await app.call(schema.deleteWebhook, { params: { webhookId: webhook.id } })
      await receiver[Symbol.asyncDispose]()
    },
  }
}

test('a message is signed, typed and recorded as delivered', async () => {
  await using lab = await hooked()
  const { id } = await lab.hooks.test(lab.webhook.id)
  await lab.hooks.send()
  const [message, ...others] = lab.receiver.received
  expect(others).toEqual([])
  if (!message) throw new Error('Nothing came.')
  expect(isSignedWith(lab.webhook.secret, message)).toBe(true)
  expect(message.headers).toMatchObject({ 'webhook-id': id, 'content-type': 'application/json' })
  expect(Math.abs(Number(message.headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(60)
  expect(JSON.parse(message.body)).toEqual({
    type: 'webhook.test',
    timestamp: expect.any(String),
    data: { webhookId: lab.webhook.id },
  })
  const delivery = await lab.deliveryOf(id)
  expect(delivery).toMatchObject({ state: 'delivered', attempts: 1, status: 204, error: null, nextAt: null })
  expect(delivery.body).toBe(message.body)
})

test('a delivery is retried with the same id and bytes until it is accepted', async () => {
  await using lab = await hooked()
  lab.receiver.answers(500)
  const { id } = await lab.hooks.test(lab.webhook.id)
  await lab.hooks.send()
  const failing = await lab.deliveryOf(id)
  expect(failing).toMatchObject({
    state: 'pending',
    attempts: 1,
    status: 500,
    error: 'The receiver responded with status 500.',
  })
  expect(Date.parse(failing.nextAt) - Date.parse(failing.attemptedAt)).toBeGreaterThanOrEqual(4_900)
  expect((await lab.hooks.read(lab.webhook.id)).failingSince).not.toBeNull()
  expect(await lab.redeliver(id)).toMatchObject({ status: 409, body: { code: 'delivery_pending' } })
  await lab.hooks.sendWaiting()
  lab.receiver.answers(200)
  await lab.hooks.sendWaiting()
  expect(await lab.deliveryOf(id)).toMatchObject({ state: 'delivered', attempts: 3, status: 200 })
  expect((await lab.hooks.read(lab.webhook.id)).failingSince).toBeNull()
  const { received } = lab.receiver
  expect(new Set(received.map(({ headers }) => headers['webhook-id']))).toEqual(new Set([id]))
  expect(new Set(received.map(({ body }) => body)).size).toBe(1)
  expect(received.every((one) => isSignedWith(lab.webhook.secret, one))).toBe(true)
})

test('after the last attempt a delivery is failed and can be redelivered', async () => {
  await using lab = await hooked()
  lab.receiver.answers(503)
  const { id } = await lab.hooks.test(lab.webhook.id)
  for (let attempt = 0; attempt < 13; attempt++) await lab.hooks.sendWaiting()
  expect(lab.receiver.received).toHaveLength(10)
  expect(await lab.deliveryOf(id)).toMatchObject({ state: 'failed', attempts: 10, nextAt: null })
  lab.receiver.answers(200)
  expect(await lab.redeliver(id)).toMatchObject({ status: 202, body: { state: 'pending', attempts: 0 } })
  await lab.hooks.send()
  expect(await lab.deliveryOf(id)).toMatchObject({ state: 'delivered', attempts: 1 })
})

test('Retry-After is honoured up to a day', async () => {
  await using lab = await hooked()
  const waitFor = async (retryAfter: string) => {
    lab.receiver.answers((response) => response.writeHead(429, { 'retry-after': retryAfter }).end())
    const { id } = await lab.hooks.test(lab.webhook.id)
    await lab.hooks.send()
    const { nextAt, attemptedAt } = await lab.deliveryOf(id)
    return Math.round((Date.parse(nextAt) - Date.parse(attemptedAt)) / 1000)
  }
  expect(await waitFor('3600')).toBe(3600)
  expect(await waitFor('99999999')).toBe(24 * 3600)
  expect(await waitFor('soon')).toBeLessThan(7)
})

const disabledDeeds = async () => {
  const { rows } = await app.database.pool.query(`select id from workspaces where login = 'local'`)
  const { events } = await listEvents(app.database.db, rows[0].id, { limit: 50 })
  return events.filter(({ action }) => action === 'webhook.disabled').map(({ detail }) => detail.reason)
}

describe('it is disabled', () => {
  test('immediately after a 410', async () => {
    await using lab = await hooked()
    lab.receiver.answers(410)
    const { id } = await lab.hooks.test(lab.webhook.id)
    await lab.hooks.send()
    expect(await lab.deliveryOf(id)).toMatchObject({ state: 'failed', attempts: 1, status: 410, nextAt: null })
    expect(await lab.hooks.read(lab.webhook.id)).toMatchObject({ enabled: false, disabledReason: 'gone' })
    expect(await disabledDeeds()).toContain('gone')
  })

  test('after three days without a success, and not before', async () => {
    await using lab = await hooked()
    lab.receiver.answers(500)
    await lab.hooks.test(lab.webhook.id)
    await lab.hooks.send()
    const since = (age: string) =>
      app.database.pool.query(`update webhooks set failing_since = now() - $1::interval where id = $2`, [
        age,
        lab.webhook.id,
      ])
    await since('71 hours')
    await lab.hooks.sendWaiting()
    expect((await lab.hooks.read(lab.webhook.id)).enabled).toBe(true)
    await since('73 hours')
    await lab.hooks.sendWaiting()
    expect(await lab.hooks.read(lab.webhook.id)).toMatchObject({ enabled: false, disabledReason: 'failing' })
    expect(await disabledDeeds()).toContain('failing')
  })
})

describe('a receiver that means harm', () => {
  test('redirects: the redirect is not followed', async () => {
    await using here = await startServer((_, response) => response.end('private'))
    await using lab = await hooked()
    for (const target of [
      `http://127.0.0.1:${here.port}/`,
      'https://169.254.169.254/latest/',
      `https://${HOST}/other`,
    ]) {
      lab.receiver.answers((response) => response.writeHead(307, { location: target }).end())
      const { id } = await lab.hooks.test(lab.webhook.id)
      await lab.hooks.send()
      expect(await lab.deliveryOf(id)).toMatchObject({
        state: 'pending',
        status: 307,
        error: 'The receiver responded with status 307.',
      })
    }
    expect(here.connections).toEqual([])
    expect(lab.receiver.received).toHaveLength(3)
  })

  test('answers endlessly: the body is not read', async () => {
    await using lab = await hooked()
    lab.receiver.answers((response) => {
      response.writeHead(200)
      const more = (): void => {
        while (response.write(Buffer.alloc(1 << 20)));
        response.once('drain', more)
      }
      more()
    })
    const { id } = await lab.hooks.test(lab.webhook.id)
    await lab.hooks.send()
    expect(await lab.deliveryOf(id)).toMatchObject({ state: 'delivered', status: 200 })
    await waitForHangUp(lab.receiver)
  })

  test('never answers, or byte by byte: the attempt times out', async () => {
    await using lab = await hooked(undefined, 200)
    const slow = [() => {}, (response: ServerResponse) => void response.socket?.write('HTTP/1.1 200 OK\r\nx-slow: ')]
    for (const answer of slow) {
      lab.receiver.answers(answer)
      const { id } = await lab.hooks.test(lab.webhook.id)
      await lab.hooks.send()
      const { state, status, error } = await lab.deliveryOf(id)
      expect([state, status]).toEqual(['pending', null])
      expect(error).toContain('no complete answer within the time allowed')
    }
    await waitForHangUp(lab.receiver)
  })

  test('is slow: at most two deliveries wait for it', async () => {
    await using lab = await hooked()
    const held: ServerResponse[] = []
    lab.receiver.answers((response) => void held.push(response))
    for (let message = 0; message < 5; message++) await lab.hooks.test(lab.webhook.id)
    let idle = 0
    const workers = Array.from({ length: 4 }, () => lab.hooks.send().then(() => void idle++))
    await expect.poll(() => [held.length, idle]).toEqual([2, 2])
    lab.receiver.answers(204)
    for (const response of held) response.writeHead(204).end()
    await Promise.all(workers)
    expect((await lab.hooks.deliveries(lab.webhook.id)).map(({ state }: { state: string }) => state)).toEqual(
      new Array(5).fill('delivered'),
    )
  })

  test('sends an invalid response or hangs up: the attempt fails', async () => {
    await using lab = await hooked()
    for (const answer of ['HTTP/1.1 999 Odd\r\n\r\n', 'nonsense\r\n\r\n', '']) {
      lab.receiver.answers((response) => response.socket?.end(answer))
      const { id } = await lab.hooks.test(lab.webhook.id)
      await lab.hooks.send()
      const { state, status, error } = await lab.deliveryOf(id)
      expect([state, status]).toEqual(['pending', null])
      expect(error).toContain(`https://${HOST}:${lab.receiver.port}`)
      expect(error).not.toContain('hush-hush')
    }
  })

  test('later resolves to a private address: no connection is made', async () => {
    let addresses = [PUBLIC]
    await using lab = await hooked(async () => addresses)
    await lab.hooks.test(lab.webhook.id)
    await lab.hooks.send()
    expect(lab.receiver.received).toHaveLength(1)
    const before = lab.receiver.connections.length
    for (const rebound of [['127.0.0.1'], [PUBLIC, '10.0.0.7'], ['::1']]) {
      addresses = rebound
      const { id } = await lab.hooks.test(lab.webhook.id)
      await lab.hooks.send()
      const { state, status, error } = await lab.deliveryOf(id)
      expect([state, status]).toEqual(['pending', null])
      expect(error).toContain('does not resolve to public addresses only')
    }
    expect(lab.receiver.connections).toHaveLength(before)
    expect(lab.receiver.received).toHaveLength(1)
  })
})

test('deliveries older than a month are deleted, pending ones are not', async () => {
  await using lab = await hooked()
  const [old, waiting] = [await lab.hooks.test(lab.webhook.id), await lab.hooks.test(lab.webhook.id)]
  await app.database.pool.query(`update webhook_deliveries set created_at = now() - interval '31 days'`)
  await app.database.pool.query(`update webhook_deliveries set state = 'delivered' where id = $1`, [old.id])
  const { sweepDeliveries } = await import('./deliver.ts')
  await sweepDeliveries(app.database.db)
  expect((await lab.hooks.deliveries(lab.webhook.id)).map(({ id }: { id: string }) => id)).toEqual([waiting.id])
})
