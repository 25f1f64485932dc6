import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { createDelivery, enqueueDelivery } from './emit.ts'
import { Delivery, type DeliveryWithBody, deliveryPending, webhookDisabled } from './schema.ts'
import * as rows from './sql.ts'

/** Throws if the webhook is disabled, because its deliveries would fail. */
function requireEnabled({ disabled }: rows.WebhookRow): void {
  if (disabled !== null) throw new Problem(webhookDisabled, 'The webhook is disabled. Enable it first.')
}

export async function testWebhook(db: Db, webhook: rows.WebhookRow): Promise<Delivery> {
  requireEnabled(webhook)
  const data = { webhookId: webhook.id }
  return toDelivery(await transact(db, (tx) => createDelivery(tx, webhook.id, 'webhook.test', data)))
}

export async function listDeliveries(db: Db, webhook: rows.WebhookRow, page: Page) {
  const listed = await rows.listDeliveryRows(db, webhook.id, page)
  const toCursor = (row: rows.DeliveryRow) => ({ at: row.created_at, id: row.id })
  const { items, nextCursor } = toPage(listed, page.limit, toDelivery, toCursor)
  return { deliveries: items, nextCursor }
}

export async function readDelivery(db: Db, webhook: rows.WebhookRow, id: string): Promise<DeliveryWithBody> {
  const row = await rows.findDeliveryRow(db, webhook.id, id)
  if (!row) throw new Problem(notFound, `Delivery ${id} not found`)
  return { ...toDelivery(row), body: row.body }
}

/** Sends a finished delivery again with the same id, so that receivers can recognise duplicates. */
export function redeliver(db: Db, webhook: rows.WebhookRow, { id }: DeliveryWithBody): Promise<Delivery> {
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
