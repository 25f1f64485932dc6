import { type Db, transact } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { reply } from '../platform/http/endpoint.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { type Route, route } from '../platform/http/route.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import { createDelivery, enqueueDelivery } from './emit.ts'
import * as schema from './schema.ts'
import { Delivery, type DeliveryWithBody, deliveryPending, webhookDisabled } from './schema.ts'
import * as rows from './sql.ts'
import {
  createWebhook,
  listWebhooks,
  readWebhookRow,
  removeWebhook,
  toWebhook,
  updateWebhook,
  type WebhookDeps,
} from './webhooks.ts'

type WebhookRequest<P> = { db: Db; caller: KeyCaller; params: P }

const find = ({ db, caller, params }: WebhookRequest<{ webhookId: string }>) =>
  readWebhookRow(db, caller.workspace.id, params.webhookId)

const findDelivery = async (request: WebhookRequest<{ webhookId: string; deliveryId: string }>) => {
  const webhook = await find(request)
  return { webhook, delivery: await readDelivery(request.db, webhook, request.params.deliveryId) }
}

export const webhookRoutes = (deps: WebhookDeps): Route[] => [
  route(schema.createWebhook, async ({ db, caller, body, requestId }) =>
    reply(201, await createWebhook({ ...deps, db }, toAuditActor(caller, requestId), body)),
  ),
  route(schema.listWebhooks, async ({ db, caller, query }) =>
    reply(200, await listWebhooks(db, caller.workspace.id, query)),
  ),
  route(schema.readWebhook, find, async (_call, webhook) => reply(200, toWebhook(webhook))),
  route(schema.updateWebhook, find, async ({ db, caller, body, requestId }, webhook) =>
    reply(200, await updateWebhook({ ...deps, db }, toAuditActor(caller, requestId), webhook, body)),
  ),
  route(schema.deleteWebhook, find, async ({ db, caller, requestId }, webhook) => {
    await removeWebhook(db, toAuditActor(caller, requestId), webhook)
    return reply(204)
  }),
  route(schema.testWebhook, find, async ({ db }, webhook) => reply(202, await testWebhook(db, webhook))),
  route(schema.listDeliveries, find, async ({ db, query }, webhook) =>
    reply(200, await listDeliveries(db, webhook, query)),
  ),
  route(schema.readDelivery, findDelivery, async (_call, { delivery }) => reply(200, delivery)),
  route(schema.redeliver, findDelivery, async ({ db }, { webhook, delivery }) =>
    reply(202, await redeliver(db, webhook, delivery)),
  ),
]

/** Throws if the webhook is disabled, because its deliveries would fail. */
function requireEnabled({ disabled }: rows.WebhookRow): void {
  if (disabled !== null) throw new Problem(webhookDisabled, 'The webhook is disabled. Enable it first.')
}

async function testWebhook(db: Db, webhook: rows.WebhookRow): Promise<Delivery> {
  requireEnabled(webhook)
  const data = { webhookId: webhook.id }
  return toDelivery(await transact(db, (tx) => createDelivery(tx, webhook.id, 'webhook.test', data)))
}

async function listDeliveries(db: Db, webhook: rows.WebhookRow, page: Page) {
  const listed = await rows.listDeliveryRows(db, webhook.id, page)
  const toCursor = (row: rows.DeliveryRow) => ({ at: row.created_at, id: row.id })
  const { items, nextCursor } = toPage(listed, page.limit, toDelivery, toCursor)
  return { deliveries: items, nextCursor }
}

async function readDelivery(db: Db, webhook: rows.WebhookRow, id: string): Promise<DeliveryWithBody> {
  const row = await rows.findDeliveryRow(db, webhook.id, id)
  if (!row) throw new Problem(notFound, `Delivery ${id} not found`)
  return { ...toDelivery(row), body: row.body }
}

/** Sends a finished delivery again with the same id, so that receivers can recognise duplicates. */
function redeliver(db: Db, webhook: rows.WebhookRow, { id }: DeliveryWithBody): Promise<Delivery> {
  requireEnabled(webhook)
  return transact(db, async (tx) => {
    if (!(await rows.reopenDelivery(tx, id))) throw new Problem(deliveryPending, 'The delivery has not finished yet.')
    await enqueueDelivery(tx, { id, webhook: webhook.id })
    return readDelivery(tx, webhook, id)
  })
}

const toDelivery = (row: rows.DeliveryRow): Delivery => ({
  id: row.id,
  event: row.event,
  state: Delivery.shape.state.parse(row.state),
  attempts: row.attempts,
  attemptedAt: row.attempted_at?.toISOString() ?? null,
  status: row.status,
  error: row.error,
  tookMs: row.took_ms,
  nextAt: row.next_at?.toISOString() ?? null,
  createdAt: row.created_at.toISOString(),
})
