import { createHmac } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { deliveryJobs } from '../../../src/app.ts'
import { createOutbound } from '../../../src/platform/outbound/outbound.ts'
import { createPinnedAgent } from '../../../src/platform/outbound/pinned-connections.ts'
import type { Resolve } from '../../../src/platform/outbound/public-host.ts'
import * as schema from '../../../src/webhooks/schema.ts'
import type { TestApp } from '../app.ts'
import { drain } from '../jobs/drain.ts'
import { type Certificate, PUBLIC, startServer } from '../loopback-servers.ts'

export const HOST = 'hooks.example.com'

export type Received = { headers: IncomingMessage['headers']; body: string }
type ReceiverAnswer = (response: ServerResponse, received: Received) => void

/** Starts a receiver behind a public name. Its answer can be changed. */
export async function startReceiver(tls: Certificate) {
  const received: Received[] = []
  let answer: ReceiverAnswer = (response) => response.writeHead(204).end()
  const server = await startServer(
    async (request, response) => {
      const one = { headers: request.headers, body: await text(request) }
      received.push(one)
      answer(response, one)
    },
    { tls },
  )
  return {
    ...server,
    received,
    url: `https://${HOST}:${server.port}/assay?token=hush-hush`,
    answers(next: ReceiverAnswer | number): void {
      answer = typeof next === 'number' ? (response) => response.writeHead(next).end() : next
    },
  }
}

/** Drives webhooks of a workspace, and a worker that delivers on demand. */
export function createWebhookDriver(app: TestApp, resolve: Resolve = async () => [PUBLIC], timeoutMs?: number) {
  const outbound = createOutbound({ resolve, agentFor: () => createPinnedAgent(['127.0.0.1']) })
  const waits = { ...app.tools.waits, ...(timeoutMs === undefined ? {} : { webhookMs: timeoutMs }) }
  const handlers = deliveryJobs({ ...app.tools, outbound, waits })
  const { pool } = app.database
  return {
    create: async (url: string, over: object = {}) =>
      (await app.call(schema.createWebhook, { body: { url, ...over } as never })).body,
    test: async (webhookId: string) => (await app.call(schema.testWebhook, { params: { webhookId } })).body,
    read: async (webhookId: string) => (await app.call(schema.readWebhook, { params: { webhookId } })).body,
    deliveries: async (webhookId: string) =>
      (await app.call(schema.listDeliveries, { params: { webhookId } })).body.deliveries,
    /** Delivers everything that is due. */
    send: () => drain(app.database, handlers),
    /** Delivers everything that waits, regardless of when it is due. */
    async sendWaiting() {
      await pool.query(`update jobs set run_at = now() where type = 'webhook.deliver' and state = 'queued'`)
      await drain(app.database, handlers)
    },
  }
}

/** Verifies a message as a receiver does, following Standard Webhooks. */
export function isSignedWith(secret: string, { headers, body }: Received): boolean {
  const content = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const wanted = `v1,${createHmac('sha256', key).update(content).digest('base64')}`
  return String(headers['webhook-signature']).split(' ').includes(wanted)
}
