import { createHmac, randomBytes } from 'node:crypto'
import type { Keyring } from '../credentials/master-key.ts'
import { credentialStorageOff } from '../credentials/schema.ts'
import type { Sealed, Secret, SecretContext } from '../credentials/seal.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toCreationCursor, toPage } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { setLimit } from '../platform/jobs/jobs.ts'
import { findUrlRefusal, type Trust } from '../platform/outbound/outbound.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { createDelivery, enqueueDelivery, toWebhookLimitKey } from './emit.ts'
import {
  type ChangedWebhook,
  Delivery,
  type DeliveryWithBody,
  deliveryPending,
  type NewWebhook,
  tooManyWebhooks,
  urlRefused,
  Webhook,
  WebhookEvent,
  webhookDisabled,
} from './schema.ts'
import * as rows from './sql.ts'

export type WebhookDeps = {
  db: Db
  /** Undefined if credential storage is off. */
  keyring: Keyring | undefined
  /** Decides whether private addresses are allowed: only if the operator is responsible for the URLs. */
  webhookTrust: Trust
}

const WEBHOOKS_MAX = 20
/** Maximum number of concurrent deliveries per webhook. A slow receiver does not delay others. */
const DELIVERIES_MAX = 2
const OLD_SECRET_MS = 24 * 3600 * 1000

type CreateWebhookInput = { url: string; description: string; events: string[] }

export function createWebhook(deps: WebhookDeps, by: AuditActor, input: CreateWebhookInput): Promise<NewWebhook> {
  const origin = requireUrl(deps, input.url)
  const keyring = requireKeyring(deps)
  const { workspaceId } = by
  return transact(deps.db, async (tx) => {
    const seal = await keyring.sealer(tx)
    await rows.lockWebhooks(tx, workspaceId)
    if ((await rows.countWebhooks(tx, workspaceId)) >= WEBHOOKS_MAX)
      throw new Problem(tooManyWebhooks, `A workspace has at most ${WEBHOOKS_MAX} webhooks.`)
    const id = newId()
    const secret = newSigningSecret()
    const sealed = seal(toSecretContext({ id, workspace_id: workspaceId, version: 1 }), { url: input.url, secret })
    const { description, events } = input
    const webhook = { id, workspace_id: workspaceId, version: 1, origin, description, events: toDistinctEvents(events) }
    const row = await rows.insertWebhook(tx, webhook, sealed)
    await setLimit(tx, toWebhookLimitKey(id), DELIVERIES_MAX)
    await record(tx, { ...by, action: 'webhook.created', subject: id, detail: { origin } })
    return { ...toWebhook(row), secret }
  })
}

/** Checks a URL without network access and returns its origin. Every delivery checks the resolved address. */
function requireUrl({ webhookTrust }: WebhookDeps, url: string): string {
  const refusal = findUrlRefusal(url, webhookTrust)
  if (!refusal) return new URL(url).origin
  const errors = [{ pointer: '/url', code: refusal, message: urlRefused.meaning }]
  throw new Problem(urlRefused, urlRefused.meaning, { errors })
}

function requireKeyring({ keyring }: WebhookDeps): Keyring {
  if (keyring) return keyring
  throw new Problem(credentialStorageOff, 'Webhooks need credential storage for their secrets. Set ASSAY_SECRET_KEY.')
}

const toDistinctEvents = (events: readonly string[]): string[] => [...new Set(events)].sort()

/** Returns the context that the encryption of the secret is bound to. */
export const toSecretContext = (row: { id: string; workspace_id: string; version: number }): SecretContext => ({
  workspaceId: row.workspace_id,
  credentialId: row.id,
  version: row.version,
  kind: 'webhook',
  provider: 'receiver',
})

export const toSealed = (row: { master_key_id: string; wrapped_key: Buffer; ciphertext: Buffer }): Sealed => ({
  masterKeyId: row.master_key_id,
  wrappedKey: row.wrapped_key,
  ciphertext: row.ciphertext,
})

export async function listWebhooks(db: Db, workspaceId: string, page: Page) {
  const listed = await rows.listWebhookRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(listed, page.limit, toCreationCursor)
  return { webhooks: items.map(toWebhook), nextCursor }
}

export async function readWebhookRow(db: Db, workspaceId: string, id: string): Promise<rows.WebhookRow> {
  const row = await rows.findWebhookRow(db, workspaceId, id)
  if (row) return row
  throw webhookNotFound(id)
}

const webhookNotFound = (id: string): Problem => new Problem(notFound, `Webhook ${id} not found`)

type UpdateWebhookInput = Partial<{ [Name in keyof CreateWebhookInput]: CreateWebhookInput[Name] | undefined }> & {
  enabled?: boolean | undefined
  newSecret?: true | undefined
}

export function updateWebhook(
  deps: WebhookDeps,
  by: AuditActor,
  { id }: rows.WebhookRow,
  input: UpdateWebhookInput,
): Promise<ChangedWebhook> {
  const origin = input.url === undefined ? undefined : requireUrl(deps, input.url)
  const needsSealing = input.url !== undefined || input.newSecret === true
  const keyring = needsSealing ? requireKeyring(deps) : undefined
  return transact(deps.db, async (tx) => {
    const seal = await keyring?.sealer(tx)
    const existing = await rows.lockSealed(tx, by.workspaceId, id)
    if (!existing) throw webhookNotFound(id)
    const secret = input.newSecret ? newSigningSecret() : undefined
    const version = existing.version + 1
    const context = toSecretContext({ ...existing, version })
    const sealed =
      keyring && seal
        ? { version, sealed: seal(context, await buildSecret(keyring, existing, input.url, secret)) }
        : undefined
    const row = await rows.updateWebhookRow(tx, id, toRowChange(input, origin), sealed)
    const changed = Object.keys(input).sort().join(', ')
    await record(tx, { ...by, action: 'webhook.updated', subject: id, detail: { origin: row.origin, changed } })
    return { ...toWebhook(row), secret }
  })
}

type SealedWebhookRow = Parameters<typeof toSecretContext>[0] & Parameters<typeof toSealed>[0]

/** Builds the new secret. A replaced signing secret also signs for a day, so that receivers can switch. */
async function buildSecret(
  keyring: Keyring,
  row: SealedWebhookRow,
  url: string | undefined,
  secret: string | undefined,
): Promise<Secret> {
  const existing = await keyring.open(toSecretContext(row), toSealed(row))
  const updated = url === undefined ? existing : { ...existing, url }
  if (secret === undefined) return updated
  const oldUntil = new Date(Date.now() + OLD_SECRET_MS).toISOString()
  return { ...updated, secret, old: existing.secret ?? '', oldUntil }
}

const toRowChange = ({ description, events, enabled }: UpdateWebhookInput, origin: string | undefined) => {
  const change = { origin, description, events: events && toDistinctEvents(events) }
  if (enabled === undefined) return change
  return enabled ? { ...change, disabled: null, failing_since: null } : { ...change, disabled: 'asked' as const }
}

export function removeWebhook(db: Db, by: AuditActor, { id, origin }: rows.WebhookRow): Promise<void> {
  return transact(db, async (tx) => {
    if (!(await rows.deleteWebhookRow(tx, by.workspaceId, id))) throw webhookNotFound(id)
    await setLimit(tx, toWebhookLimitKey(id), null)
    await record(tx, { ...by, action: 'webhook.removed', subject: id, detail: { origin } })
  })
}

const toTarget = (row: rows.WebhookRow) => ({ webhook: row.id, workspaceId: row.workspace_id })

export const toWebhook = (row: rows.WebhookRow): Webhook => ({
  id: row.id,
  origin: row.origin,
  description: row.description,
  events: row.events.map((event) => WebhookEvent.parse(event)),
  enabled: row.disabled === null,
  disabledReason: Webhook.shape.disabledReason.parse(row.disabled),
  failingSince: row.failing_since?.toISOString() ?? null,
  createdAt: row.created_at.toISOString(),
})

/** Throws if the webhook is disabled, because its deliveries would fail. */
function requireEnabled({ disabled }: rows.WebhookRow): void {
  if (disabled !== null) throw new Problem(webhookDisabled, 'The webhook is disabled. Enable it first.')
}

export async function testWebhook(db: Db, webhook: rows.WebhookRow): Promise<Delivery> {
  requireEnabled(webhook)
  const data = { webhookId: webhook.id }
  return toDelivery(await transact(db, (tx) => createDelivery(tx, toTarget(webhook), 'webhook.test', data)))
}

export async function listDeliveries(db: Db, webhook: rows.WebhookRow, page: Page) {
  const listed = await rows.listDeliveryRows(db, webhook.id, page)
  const { items, nextCursor } = toPage(listed, page.limit, toCreationCursor)
  return { deliveries: items.map(toDelivery), nextCursor }
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
    await enqueueDelivery(tx, { id, ...toTarget(webhook) })
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

const SECRET_PREFIX = 'whsec_'
const SECRET_BYTES = 32

/** Creates a signing secret in the format of Standard Webhooks: `whsec_` and random bytes in base64. */
const newSigningSecret = (): string => SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64')

type WebhookMessage = { id: string; at: Date; body: string }

/** Builds the headers of Standard Webhooks, with one signature per secret. A receiver needs any one of them. */
export function buildSignedHeaders(
  { id, at, body }: WebhookMessage,
  secrets: readonly string[],
): Record<string, string> {
  const timestamp = String(Math.floor(at.getTime() / 1000))
  const signatures = secrets.map((secret) => `v1,${sign(secret, `${id}.${timestamp}.${body}`)}`)
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') }
}

const sign = (secret: string, content: string): string =>
  createHmac('sha256', Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64'))
    .update(content)
    .digest('base64')
