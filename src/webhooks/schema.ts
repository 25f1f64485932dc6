import { z } from 'zod'
import { credentialStorageOff } from '../credentials/schema.ts'
import { endpoint, uniqueList } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
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

export const WebhookEvent = z.enum(EVENTS).meta({ id: 'WebhookEvent', description: 'Type of an event.' })
export type WebhookEvent = z.infer<typeof WebhookEvent>

const webhookFields = {
  id: z.uuid(),
  origin: z.string().describe('Origin of the URL. The rest is not shown, because it often contains a secret.'),
  description: z.string(),
  events: z.array(WebhookEvent),
  enabled: z.boolean(),
  disabledReason: z
    .enum(['asked', 'gone', 'failing'])
    .nullable()
    .describe(
      '`asked`: disabled by request. `gone`: the receiver answered 410. `failing`: no delivery succeeded for three days.',
    ),
  failingSince: time.nullable().describe('No delivery has succeeded since.'),
  createdAt: time,
}
export const Webhook = z
  .object(webhookFields)
  .meta({ id: 'Webhook', description: 'A webhook without its URL and secret.' })
export type Webhook = z.infer<typeof Webhook>

const signingSecret = z.string().describe('`whsec_…`: signing secret. Shown only once.')
export const NewWebhook = z
  .object({ ...webhookFields, secret: signingSecret })
  .meta({ id: 'NewWebhook', description: 'A new webhook with its signing secret.' })
export type NewWebhook = z.infer<typeof NewWebhook>
export const ChangedWebhook = z
  .object({ ...webhookFields, secret: signingSecret.optional() })
  .meta({ id: 'ChangedWebhook', description: 'Contains the secret if a new one was requested.' })
export type ChangedWebhook = z.infer<typeof ChangedWebhook>

const deliveryFields = {
  id: z.uuid().describe('Sent as `webhook-id`; the same for every attempt.'),
  event: z.string(),
  state: z.enum(['pending', 'delivered', 'failed']),
  attempts: z.number().int().min(0),
  attemptedAt: time.nullable(),
  status: z.number().int().nullable().describe('Last HTTP status of the receiver. Null if it did not respond.'),
  error: z.string().nullable(),
  tookMs: z.number().int().nullable(),
  nextAt: time.nullable().describe('Time of the next attempt.'),
  createdAt: time,
}
export const Delivery = z
  .object(deliveryFields)
  .meta({ id: 'WebhookDelivery', description: 'One message to one webhook, across all its attempts.' })
export type Delivery = z.infer<typeof Delivery>
export const DeliveryWithBody = z
  .object({ ...deliveryFields, body: z.string().describe('Exact bytes that were signed and sent.') })
  .meta({ id: 'WebhookDeliveryWithBody', description: 'A delivery with the body that was sent.' })
export type DeliveryWithBody = z.infer<typeof DeliveryWithBody>

export const urlRefused = {
  code: 'url_refused',
  status: 422,
  title: 'URL not allowed',
  meaning:
    'Use https and a public host, without a user name, at port 443 or one from 1024 up, in the form that a URL parser returns: lower-case host, no backslash, space or default port.',
} as const satisfies ProblemKind

export const tooManyWebhooks = {
  code: 'too_many_webhooks',
  status: 409,
  title: 'Too many webhooks',
  meaning: 'The workspace has reached the maximum. Remove a webhook first.',
} as const satisfies ProblemKind

export const webhookDisabled = {
  code: 'webhook_disabled',
  status: 409,
  title: 'Webhook is disabled',
  meaning: 'Enable it with PATCH first.',
} as const satisfies ProblemKind

export const deliveryPending = {
  code: 'delivery_pending',
  status: 409,
  title: 'Delivery is still pending',
  meaning: 'It is retried automatically at `nextAt`.',
} as const satisfies ProblemKind

const WEBHOOKS_PATH = '/api/orgs/{org}/webhooks'
const WEBHOOK_PATH = `${WEBHOOKS_PATH}/{webhookId}` as const

const url = z.string().max(2000).describe('https URL of a public host. Stored encrypted and never shown again.')
const description = z.string().trim().max(200)
const events = uniqueList(z.array(WebhookEvent).min(1).max(EVENTS.length))

export const createWebhook = endpoint({
  id: 'createWebhook',
  method: 'POST',
  path: WEBHOOKS_PATH,
  summary: 'Create a webhook',
  access: 'admin',
  body: z.strictObject({
    url,
    description: description.default(''),
    events: events.default([...EVENTS]).describe('Default: all.'),
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
  path: WEBHOOKS_PATH,
  summary: 'List the webhooks, newest first',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ webhooks: z.array(Webhook), nextCursor: z.string().nullable() }) },
})

export const readWebhook = endpoint({
  id: 'readWebhook',
  method: 'GET',
  path: WEBHOOK_PATH,
  summary: 'Read a webhook',
  access: 'read',
  answers: { 200: Webhook },
})

export const updateWebhook = endpoint({
  id: 'updateWebhook',
  method: 'PATCH',
  path: WEBHOOK_PATH,
  summary: 'Change a webhook, enable it, or rotate its secret; the old secret also signs for a day',
  access: 'admin',
  body: z.strictObject({
    url: url.optional(),
    description: description.optional(),
    events: events.optional(),
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
  path: WEBHOOK_PATH,
  summary: 'Delete a webhook and its deliveries',
  access: 'admin',
  answers: { 204: null },
})

export const testWebhook = endpoint({
  id: 'testWebhook',
  method: 'POST',
  path: `${WEBHOOK_PATH}/test`,
  summary: 'Send a webhook.test event',
  access: 'admin',
  answers: { 202: Delivery },
  problems: [webhookDisabled],
})

export const listDeliveries = endpoint({
  id: 'listWebhookDeliveries',
  method: 'GET',
  path: `${WEBHOOK_PATH}/deliveries`,
  summary: 'List the deliveries of the last 30 days, newest first',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ deliveries: z.array(Delivery), nextCursor: z.string().nullable() }) },
})

export const readDelivery = endpoint({
  id: 'readWebhookDelivery',
  method: 'GET',
  path: `${WEBHOOK_PATH}/deliveries/{deliveryId}`,
  summary: 'Read a delivery with its body',
  access: 'read',
  answers: { 200: DeliveryWithBody },
})

export const redeliver = endpoint({
  id: 'redeliverWebhook',
  method: 'POST',
  path: `${WEBHOOK_PATH}/deliveries/{deliveryId}/redeliver`,
  summary: 'Send a delivery again with the same id',
  access: 'admin',
  answers: { 202: Delivery },
  problems: [webhookDisabled, deliveryPending],
})
