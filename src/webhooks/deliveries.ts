import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { Delivery, type DeliveryWithBody, deliveryPending, webhookDisabled } from './schema.ts'
import * as rows from './sql.ts'
import { enqueueDelivery, post } from './tell.ts'
import type { WebhookRow } from './webhooks.ts'

/** The webhook must take messages: one that is disabled would let them fail. */
function requireEnabled({ disabled }: WebhookRow): void {
  if (disabled !== null) throw new Problem(webhookDisabled, 'Nothing is sent to a webhook that is disabled.')
}

export async function testWebhook(db: Db, webhook: WebhookRow): Promise<Delivery> {
  requireEnabled(webhook)
  const data = { webhookId: webhook.id }
  return deliveryOf(await transact(db, (tx) => post(tx, webhook.id, 'webhook.test', data)))
}

export async function listDeliveries(db: Db, webhook: WebhookRow, page: Page) {
  const found = await rows.listDeliveryRows(db, webhook.id, page)
  const place = (row: rows.DeliveryRow) => ({ at: row.created_at, id: row.id })
  const { items, nextCursor } = toPage(found, page.limit, deliveryOf, place)
  return { deliveries: items, nextCursor }
}

export async function readDelivery(db: Db, webhook: WebhookRow, id: string): Promise<DeliveryWithBody> {
  const row = await rows.findDeliveryRow(db, webhook.id, id)
  if (!row) throw new Problem(notFound, `There is no delivery ${id} to this webhook.`)
  return { ...deliveryOf(row), body: row.body }
}

/** The same message, with the same id: who has dealt with it need not again. */
export function redeliver(db: Db, webhook: WebhookRow, { id }: DeliveryWithBody): Promise<Delivery> {
  requireEnabled(webhook)
  return transact(db, async (tx) => {
    if (!(await rows.reopenDelivery(tx, id))) throw new Problem(deliveryPending, 'It has not ended yet.')
    await enqueueDelivery(tx, { id, webhook: webhook.id })
    return readDelivery(tx, webhook, id)
  })
}

const deliveryOf = (row: rows.DeliveryRow): Delivery => ({
  ...{ id: row.id, event: row.event, state: Delivery.shape.state.parse(row.state), attempts: row.attempts },
  attemptedAt: row.attempted_at?.toISOString() ?? null,
  ...{ status: row.status, error: row.error, tookMs: row.took_ms },
  nextAt: row.next_at?.toISOString() ?? null,
  createdAt: row.created_at.toISOString(),
})
