import { z } from 'zod'
import { credentialStorageOff } from '../credentials/schema.ts'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
import { uniqueList } from '../platform/http/unique.ts'
import type { ProblemKind } from '../platform/problem.ts'

const time = z.iso.datetime()

export const EVENTS = [
  'benchmark.added',
  'batch.completed',
  'batch.failed',
  'comparison.completed',
  'comparison.submission_failed',
  'comparison.paused',
  'release.published',
  'release.withdrawn',
] as const

export const WebhookEvent = z.enum(EVENTS).meta({ id: 'WebhookEvent' })
export type WebhookEvent = z.infer<typeof WebhookEvent>

const fields = {
  id: z.uuid(),
  origin: z.string().describe('Of its address. The rest is not shown: it is often a secret.'),
  description: z.string(),
  events: z.array(WebhookEvent),
  enabled: z.boolean(),
  disabledReason: z
    .enum(['asked', 'gone', 'failing'])
    .nullable()
    .describe('`gone`: it answered 410. `failing`: for three days nothing got through.'),
  failingSince: time.nullable().describe('Nothing has arrived since.'),
  createdAt: time,
}
export const Webhook = z.object(fields).meta({ id: 'Webhook' })
export type Webhook = z.infer<typeof Webhook>

const signingSecret = z.string().describe('`whsec_…`: what messages are signed with. Shown this once.')
export const NewWebhook = z.object({ ...fields, secret: signingSecret }).meta({ id: 'NewWebhook' })
export type NewWebhook = z.infer<typeof NewWebhook>
export const ChangedWebhook = z
  .object({ ...fields, secret: signingSecret.optional() })
  .meta({ id: 'ChangedWebhook', description: 'With the secret when a new one was asked for.' })
export type ChangedWebhook = z.infer<typeof ChangedWebhook>

const delivery = {
  id: z.uuid().describe('Sent as `webhook-id`, the same at each attempt.'),
  event: z.string(),
  state: z.enum(['pending', 'delivered', 'failed']),
  attempts: z.number().int().min(0),
  attemptedAt: time.nullable(),
  status: z.number().int().nullable().describe('That the receiver answered last. Null: it did not.'),
  error: z.string().nullable(),
  tookMs: z.number().int().nullable(),
  nextAt: time.nullable().describe('When it is tried again.'),
  createdAt: time,
}
export const Delivery = z.object(delivery).meta({ id: 'WebhookDelivery' })
export type Delivery = z.infer<typeof Delivery>
export const DeliveryWithBody = z
  .object({ ...delivery, body: z.string().describe('To the byte what was signed and sent.') })
  .meta({ id: 'WebhookDeliveryWithBody' })
export type DeliveryWithBody = z.infer<typeof DeliveryWithBody>

export const urlRefused = {
  code: 'url_refused',
  status: 422,
  title: 'Nothing is sent to this address',
  meaning:
    'Use https and a public host, without a user name, at port 443 or one from 1024 up, in the form that a URL parser returns: lower-case host, no backslash, space or default port.',
} as const satisfies ProblemKind

export const tooManyWebhooks = {
  code: 'too_many_webhooks',
  status: 409,
  title: 'There are as many webhooks as there may be',
  meaning: 'Remove one that is not needed any more.',
} as const satisfies ProblemKind

export const webhookDisabled = {
  code: 'webhook_disabled',
  status: 409,
  title: 'The webhook is disabled',
  meaning: 'Enable it with PATCH first.',
} as const satisfies ProblemKind

export const deliveryPending = {
  code: 'delivery_pending',
  status: 409,
  title: 'The delivery has not ended',
  meaning: 'It is tried again by itself: `nextAt` says when.',
} as const satisfies ProblemKind

const PATH = '/api/orgs/{org}/webhooks'
const ONE = `${PATH}/{webhookId}` as const

const url = z.string().max(2000).describe('https, and a public host. It is sealed, and never shown again.')
const description = z.string().trim().max(200)
const events = uniqueList(z.array(WebhookEvent).min(1).max(EVENTS.length))

export const createWebhook = endpoint({
  id: 'createWebhook',
  method: 'POST',
  path: PATH,
  summary: 'Be told of what happens, at an address of yours',
  access: 'admin',
  body: z.strictObject({
    ...{ url, description: description.default('') },
    events: events.default([...EVENTS]).describe('Without it: all.'),
  }),
  example: { url: 'https://hooks.example.org/assay', events: ['comparison.completed'] },
  answers: { 201: NewWebhook },
  problems: [urlRefused, credentialStorageOff, tooManyWebhooks],
  creates: true,
  showsSecret: true,
})

export const listWebhooks = endpoint({
  id: 'listWebhooks',
  method: 'GET',
  path: PATH,
  summary: 'List the webhooks, newest first',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ webhooks: z.array(Webhook), nextCursor: z.string().nullable() }) },
})

export const readWebhook = endpoint({
  id: 'readWebhook',
  method: 'GET',
  path: ONE,
  summary: 'Read a webhook',
  access: 'read',
  answers: { 200: Webhook },
})

export const updateWebhook = endpoint({
  id: 'updateWebhook',
  method: 'PATCH',
  path: ONE,
  summary: 'Change a webhook, enable it again, or give it a new secret; the old one signs along for a day',
  access: 'admin',
  body: z.strictObject({
    ...{ url: url.optional(), description: description.optional(), events: events.optional() },
    enabled: z.boolean().optional(),
    newSecret: z.literal(true).optional(),
  }),
  example: { enabled: true },
  answers: { 200: ChangedWebhook },
  problems: [urlRefused, credentialStorageOff],
  showsSecret: true,
})

export const deleteWebhook = endpoint({
  id: 'deleteWebhook',
  method: 'DELETE',
  path: ONE,
  summary: 'Remove a webhook and what was sent to it',
  access: 'admin',
  answers: { 204: null },
})

export const testWebhook = endpoint({
  id: 'testWebhook',
  method: 'POST',
  path: `${ONE}/test`,
  summary: 'Send a message of the type webhook.test',
  access: 'admin',
  answers: { 202: Delivery },
  problems: [webhookDisabled],
})

export const listDeliveries = endpoint({
  id: 'listWebhookDeliveries',
  method: 'GET',
  path: `${ONE}/deliveries`,
  summary: 'List what was sent to a webhook in the last 30 days, newest first',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ deliveries: z.array(Delivery), nextCursor: z.string().nullable() }) },
})

export const readDelivery = endpoint({
  id: 'readWebhookDelivery',
  method: 'GET',
  path: `${ONE}/deliveries/{deliveryId}`,
  summary: 'Read a delivery, with what was sent',
  access: 'read',
  answers: { 200: DeliveryWithBody },
})

export const redeliver = endpoint({
  id: 'redeliverWebhook',
  method: 'POST',
  path: `${ONE}/deliveries/{deliveryId}/redeliver`,
  summary: 'Send it again, with the same id',
  access: 'admin',
  answers: { 202: Delivery },
  problems: [webhookDisabled, deliveryPending],
})
