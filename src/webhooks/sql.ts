import { type Insertable, sql } from 'kysely'
import type { Sealed } from '../credentials/seal.ts'
import { type Db, lock } from '../platform/db/db.ts'
import { pageNewestFirst } from '../platform/db/newest-first.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import type { Page } from '../platform/http/page.ts'

const SHOWN = [
  ...(['id', 'workspace_id', 'origin', 'description', 'events', 'disabled'] as const),
  ...(['failing_since', 'version', 'created_at'] as const),
]
const SEALED = ['master_key_id', 'wrapped_key', 'ciphertext'] as const

export type WebhookRow = Awaited<ReturnType<typeof insertWebhook>>
export type Disabled = 'asked' | 'gone' | 'failing'

/** Whoever adds one counts them first. */
export const lockWebhooks = (tx: Db, workspaceId: string) => lock(tx, `webhooks ${workspaceId}`)

export async function countWebhooks(tx: Db, workspaceId: string): Promise<number> {
  const query = tx.selectFrom('webhooks').select(({ fn }) => fn.countAll<number>().as('count'))
  return Number((await query.where('workspace_id', '=', workspaceId).executeTakeFirstOrThrow()).count)
}

type NewWebhook = Pick<Insertable<DB['webhooks']>, 'id' | 'workspace_id' | 'origin' | 'description' | 'version'> & {
  events: string[]
}

export const insertWebhook = (tx: Db, webhook: NewWebhook, sealed: Sealed) =>
  tx
    .insertInto('webhooks')
    .values({ ...webhook, ...columnsOf(sealed) })
    .returning(SHOWN)
    .executeTakeFirstOrThrow()

const columnsOf = (sealed: Sealed) => ({
  ...{ master_key_id: sealed.masterKeyId, wrapped_key: sealed.wrappedKey, ciphertext: sealed.ciphertext },
})

export const listWebhookRows = (db: Db, workspaceId: string, page: Page) =>
  db
    .selectFrom('webhooks')
    .select(SHOWN)
    .where('workspace_id', '=', workspaceId)
    .$call(pageNewestFirst('created_at', page))
    .execute()

export const findWebhookRow = (db: Db, workspaceId: string, id: string) =>
  db
    .selectFrom('webhooks')
    .select(SHOWN)
    .where('workspace_id', '=', workspaceId)
    .where('id', '=', id)
    .executeTakeFirst()

/** With what is sealed, held until the transaction ends. */
export const lockSealed = (tx: Db, workspaceId: string, id: string) =>
  tx
    .selectFrom('webhooks')
    .select([...SHOWN, ...SEALED])
    .where('workspace_id', '=', workspaceId)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()

type Change = {
  origin?: string | undefined
  description?: string | undefined
  events?: string[] | undefined
  disabled?: Disabled | null
  failing_since?: null
}

export const updateWebhookRow = (tx: Db, id: string, change: Change, sealed?: { version: number; sealed: Sealed }) =>
  tx
    .updateTable('webhooks')
    .set({ id })
    .set(change)
    .set(sealed ? { version: sealed.version, ...columnsOf(sealed.sealed) } : {})
    .where('id', '=', id)
    .returning(SHOWN)
    .executeTakeFirstOrThrow()

export async function deleteWebhookRow(tx: Db, workspaceId: string, id: string): Promise<boolean> {
  const query = tx.deleteFrom('webhooks').where('workspace_id', '=', workspaceId).where('id', '=', id)
  return (await query.executeTakeFirstOrThrow()).numDeletedRows > 0n
}

/** Of a workspace those that want to hear of this. */
export async function listListening(tx: Db, workspaceId: string, event: string): Promise<string[]> {
  const rows = await tx
    .selectFrom('webhooks')
    .select('id')
    .where('workspace_id', '=', workspaceId)
    .where('disabled', 'is', null)
    .where(sql<boolean>`${event} = any(events)`)
    .orderBy('id')
    .execute()
  return rows.map(({ id }) => id)
}

const DELIVERY = [
  ...(['id', 'webhook', 'event', 'state', 'attempts', 'attempted_at'] as const),
  ...(['status', 'error', 'took_ms', 'next_at', 'created_at'] as const),
]

export type DeliveryRow = Awaited<ReturnType<typeof listDeliveryRows>>[number]

export const insertDelivery = (tx: Db, row: { id: string; webhook: string; event: string; body: string }) =>
  tx.insertInto('webhook_deliveries').values(row).returning(DELIVERY).executeTakeFirstOrThrow()

export const listDeliveryRows = (db: Db, webhook: string, page: Page) =>
  db
    .selectFrom('webhook_deliveries')
    .select(DELIVERY)
    .where('webhook', '=', webhook)
    .$call(pageNewestFirst('created_at', page))
    .execute()

export const findDeliveryRow = (db: Db, webhook: string, id: string) =>
  db
    .selectFrom('webhook_deliveries')
    .select([...DELIVERY, 'body'])
    .where('webhook', '=', webhook)
    .where('id', '=', id)
    .executeTakeFirst()

/** True: it had ended. */
export async function reopenDelivery(tx: Db, id: string): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('webhook_deliveries')
    .set({ state: 'pending', attempts: 0, next_at: null })
    .where('id', '=', id)
    .where('state', '<>', 'pending')
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

export type Due = NonNullable<Awaited<ReturnType<typeof findDue>>>

/** What is to be sent, with where it goes. Undefined: it has ended, or the webhook is gone. */
export const findDue = (db: Db, id: string) =>
  db
    .selectFrom('webhook_deliveries as delivery')
    .innerJoin('webhooks as webhook', 'webhook.id', 'delivery.webhook')
    .select(['delivery.id', 'delivery.event', 'delivery.body', 'delivery.attempts', 'delivery.created_at'])
    .select(['webhook.id as webhook', 'webhook.workspace_id', 'webhook.disabled', 'webhook.version', 'webhook.kind'])
    .select(['webhook.provider', 'webhook.master_key_id', 'webhook.wrapped_key', 'webhook.ciphertext'])
    .where('delivery.id', '=', id)
    .where('delivery.state', '=', 'pending')
    .executeTakeFirst()

export type Attempted = {
  state: 'pending' | 'delivered' | 'failed'
  attempts: number
  status: number | null
  error: string | null
  took_ms: number | null
  next_at: Date | null
}

export const storeAttempt = (tx: Db, id: string, attempted: Attempted) =>
  tx
    .updateTable('webhook_deliveries')
    .set({ ...attempted, attempted_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute()

export const endDelivery = (tx: Db, id: string, error: string) =>
  tx
    .updateTable('webhook_deliveries')
    .set({ state: 'failed', error, next_at: null })
    .where('id', '=', id)
    .where('state', '=', 'pending')
    .execute()

export const noteArrived = (tx: Db, webhook: string) =>
  tx
    .updateTable('webhooks')
    .set({ failing_since: null })
    .where('id', '=', webhook)
    .where('failing_since', 'is not', null)
    .execute()

/** Answers since when nothing has arrived. Undefined: it is gone, or disabled already. */
export async function noteFailing(tx: Db, webhook: string): Promise<Date | undefined> {
  const row = await tx
    .updateTable('webhooks')
    .set({ failing_since: sql<Date>`coalesce(failing_since, now())` })
    .where('id', '=', webhook)
    .where('disabled', 'is', null)
    .returning('failing_since')
    .executeTakeFirst()
  return row?.failing_since ?? undefined
}

/** True: it was not disabled before. */
export async function disableWebhook(tx: Db, webhook: string, disabled: Disabled): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('webhooks')
    .set({ disabled })
    .where('id', '=', webhook)
    .where('disabled', 'is', null)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

export const deleteOldDeliveries = (db: Db, days: number) =>
  db
    .deleteFrom('webhook_deliveries')
    .where('state', '<>', 'pending')
    .where('created_at', '<', sql<Date>`now() - make_interval(days => ${days})`)
    .execute()
