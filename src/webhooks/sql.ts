import { type Insertable, sql } from 'kysely'
import { type Sealed, toSealedColumns } from '../credentials/seal.ts'
import { type Db, lock, pageNewestFirst } from '../platform/db/db.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import type { Page } from '../platform/http/page.ts'

const WEBHOOK_COLUMNS = [
  'id',
  'workspace_id',
  'origin',
  'description',
  'events',
  'disabled',
  'failing_since',
  'version',
  'created_at',
] as const
const SEALED_COLUMNS = ['master_key_id', 'wrapped_key', 'ciphertext'] as const

export type WebhookRow = Awaited<ReturnType<typeof insertWebhook>>
type DisabledReason = 'asked' | 'gone' | 'failing'

/** Serializes the creation of webhooks, so that their number can be limited. */
export const lockWebhooks = (tx: Db, workspaceId: string) => lock(tx, `webhooks ${workspaceId}`)

export async function countWebhooks(tx: Db, workspaceId: string): Promise<number> {
  const query = tx.selectFrom('webhooks').select(({ fn }) => fn.countAll<number>().as('count'))
  return Number((await query.where('workspace_id', '=', workspaceId).executeTakeFirstOrThrow()).count)
}

type NewWebhookRow = Pick<Insertable<DB['webhooks']>, 'id' | 'workspace_id' | 'origin' | 'description' | 'version'> & {
  events: string[]
}

export const insertWebhook = (tx: Db, webhook: NewWebhookRow, sealed: Sealed) =>
  tx
    .insertInto('webhooks')
    .values({ ...webhook, ...toSealedColumns(sealed) })
    .returning(WEBHOOK_COLUMNS)
    .executeTakeFirstOrThrow()

export const listWebhookRows = (db: Db, workspaceId: string, page: Page) =>
  db
    .selectFrom('webhooks')
    .select(WEBHOOK_COLUMNS)
    .where('workspace_id', '=', workspaceId)
    .$call(pageNewestFirst('created_at', page))
    .execute()

export const findWebhookRow = (db: Db, workspaceId: string, id: string) =>
  db
    .selectFrom('webhooks')
    .select(WEBHOOK_COLUMNS)
    .where('workspace_id', '=', workspaceId)
    .where('id', '=', id)
    .executeTakeFirst()

/** Locks a webhook and reads it with its encrypted secret. */
export const lockSealed = (tx: Db, workspaceId: string, id: string) =>
  tx
    .selectFrom('webhooks')
    .select([...WEBHOOK_COLUMNS, ...SEALED_COLUMNS])
    .where('workspace_id', '=', workspaceId)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()

type WebhookRowChange = {
  origin?: string | undefined
  description?: string | undefined
  events?: string[] | undefined
  disabled?: DisabledReason | null
  failing_since?: null
}

export const updateWebhookRow = (
  tx: Db,
  id: string,
  change: WebhookRowChange,
  sealed?: { version: number; sealed: Sealed },
) =>
  tx
    .updateTable('webhooks')
    // Kysely needs at least one column, and the change may be empty.
    .set({ id })
    .set(change)
    .set(sealed ? { version: sealed.version, ...toSealedColumns(sealed.sealed) } : {})
    .where('id', '=', id)
    .returning(WEBHOOK_COLUMNS)
    .executeTakeFirstOrThrow()

export async function deleteWebhookRow(tx: Db, workspaceId: string, id: string): Promise<boolean> {
  const query = tx.deleteFrom('webhooks').where('workspace_id', '=', workspaceId).where('id', '=', id)
  return (await query.executeTakeFirstOrThrow()).numDeletedRows > 0n
}

/** Lists the enabled webhooks of a workspace that subscribe to the event. */
export async function listSubscribed(tx: Db, workspaceId: string, event: string): Promise<string[]> {
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

const DELIVERY_COLUMNS = [
  'id',
  'webhook',
  'event',
  'state',
  'attempts',
  'attempted_at',
  'status',
  'error',
  'took_ms',
  'next_at',
  'created_at',
] as const

export type DeliveryRow = Awaited<ReturnType<typeof listDeliveryRows>>[number]

export const insertDelivery = (tx: Db, row: { id: string; webhook: string; event: string; body: string }) =>
  tx.insertInto('webhook_deliveries').values(row).returning(DELIVERY_COLUMNS).executeTakeFirstOrThrow()

export const listDeliveryRows = (db: Db, webhook: string, page: Page) =>
  db
    .selectFrom('webhook_deliveries')
    .select(DELIVERY_COLUMNS)
    .where('webhook', '=', webhook)
    .$call(pageNewestFirst('created_at', page))
    .execute()

export const findDeliveryRow = (db: Db, webhook: string, id: string) =>
  db
    .selectFrom('webhook_deliveries')
    .select([...DELIVERY_COLUMNS, 'body'])
    .where('webhook', '=', webhook)
    .where('id', '=', id)
    .executeTakeFirst()

/** Reopens a finished delivery. Returns false if it is still pending. */
export async function reopenDelivery(tx: Db, id: string): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('webhook_deliveries')
    .set({ state: 'pending', attempts: 0, next_at: null })
    .where('id', '=', id)
    .where('state', '<>', 'pending')
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

export type PendingDelivery = NonNullable<Awaited<ReturnType<typeof findPendingDelivery>>>

/** Finds a pending delivery with its webhook. Undefined if it has finished or the webhook was deleted. */
export const findPendingDelivery = (db: Db, id: string) =>
  db
    .selectFrom('webhook_deliveries as delivery')
    .innerJoin('webhooks as webhook', 'webhook.id', 'delivery.webhook')
    .select(['delivery.id', 'delivery.event', 'delivery.body', 'delivery.attempts', 'delivery.created_at'])
    .select(['webhook.id as webhook', 'webhook.workspace_id', 'webhook.disabled', 'webhook.version', 'webhook.kind'])
    .select(['webhook.provider', 'webhook.master_key_id', 'webhook.wrapped_key', 'webhook.ciphertext'])
    .where('delivery.id', '=', id)
    .where('delivery.state', '=', 'pending')
    .executeTakeFirst()

type AttemptResult = {
  state: 'pending' | 'delivered' | 'failed'
  attempts: number
  status: number | null
  error: string | null
  took_ms: number | null
  next_at: Date | null
}

export const storeAttempt = (tx: Db, id: string, attempted: AttemptResult) =>
  tx
    .updateTable('webhook_deliveries')
    .set({ ...attempted, attempted_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute()

/** Fails a delivery that is still pending, without a further attempt. */
export const failDelivery = (tx: Db, id: string, error: string) =>
  tx
    .updateTable('webhook_deliveries')
    .set({ state: 'failed', error, next_at: null })
    .where('id', '=', id)
    .where('state', '=', 'pending')
    .execute()

export const clearFailing = (tx: Db, webhook: string) =>
  tx
    .updateTable('webhooks')
    .set({ failing_since: null })
    .where('id', '=', webhook)
    .where('failing_since', 'is not', null)
    .execute()

/** Marks a webhook as failing and returns since when. Undefined if it was deleted or is disabled. */
export async function markFailing(tx: Db, webhook: string): Promise<Date | undefined> {
  const row = await tx
    .updateTable('webhooks')
    .set({ failing_since: sql<Date>`coalesce(failing_since, now())` })
    .where('id', '=', webhook)
    .where('disabled', 'is', null)
    .returning('failing_since')
    .executeTakeFirst()
  return row?.failing_since ?? undefined
}

/** Disables a webhook. Returns false if it already was. */
export async function disableWebhook(tx: Db, webhook: string, disabled: DisabledReason): Promise<boolean> {
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
