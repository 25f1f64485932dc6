import type { Keyring } from '../credentials/master-key.ts'
import { credentialStorageOff } from '../credentials/schema.ts'
import type { Place, Sealed, Secret } from '../credentials/seal.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { setLimit } from '../platform/jobs/jobs.ts'
import { refuseUrl, type Trust } from '../platform/outbound/outbound.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type By, record } from '../workspaces/audit.ts'
import { type ChangedWebhook, type NewWebhook, tooManyWebhooks, urlRefused, Webhook, WebhookEvent } from './schema.ts'
import { newSigningSecret } from './signature.ts'
import * as rows from './sql.ts'
import { webhookLimit } from './tell.ts'

export type WebhookTools = {
  db: Db
  /** Absent where credential storage is off. */
  keyring: Keyring | undefined
  /** Who answers for the addresses: whoever gives them, or the operator, who lets them be private. */
  webhookTrust: Trust
}

export type WebhookRow = rows.WebhookRow

const WEBHOOKS_MAX = 20
/** So many messages to one webhook at once: a slow one holds up nobody else. */
const AT_ONCE = 2
const OLD_SECRET_MS = 24 * 3600 * 1000

type Wish = { url: string; description: string; events: string[] }

export function createWebhook(tools: WebhookTools, by: By, wish: Wish): Promise<NewWebhook> {
  const origin = requireUrl(tools, wish.url)
  const keyring = requireKeyring(tools)
  const { workspaceId } = by
  return transact(tools.db, async (tx) => {
    const seal = await keyring.sealer(tx)
    await rows.lockWebhooks(tx, workspaceId)
    if ((await rows.countWebhooks(tx, workspaceId)) >= WEBHOOKS_MAX)
      throw new Problem(tooManyWebhooks, `A workspace has at most ${WEBHOOKS_MAX} webhooks.`)
    const [id, secret] = [newId(), newSigningSecret()]
    const sealed = seal(placeOf({ id, workspace_id: workspaceId, version: 1 }), { url: wish.url, secret })
    const { description, events } = wish
    const fresh = { id, workspace_id: workspaceId, version: 1, origin, description, events: distinct(events) }
    const row = await rows.insertWebhook(tx, fresh, sealed)
    await setLimit(tx, webhookLimit(id), AT_ONCE)
    await record(tx, { ...by, action: 'webhook.created', subject: id, detail: { origin } })
    return { ...webhookOf(row), secret }
  })
}

/** Only what can be said without asking the network: each message asks again. */
function requireUrl({ webhookTrust }: WebhookTools, url: string): string {
  const refusal = refuseUrl(url, webhookTrust)
  if (!refusal) return new URL(url).origin
  const errors = [{ pointer: '/url', code: refusal, message: urlRefused.meaning }]
  throw new Problem(urlRefused, urlRefused.meaning, { errors })
}

function requireKeyring({ keyring }: WebhookTools): Keyring {
  if (keyring) return keyring
  throw new Problem(credentialStorageOff, 'The secret of a webhook would have to be stored.')
}

const distinct = (events: readonly string[]): string[] => [...new Set(events)].sort()

/** What is bound into the seal. */
export const placeOf = (row: { id: string; workspace_id: string; version: number }): Place => ({
  ...{ workspaceId: row.workspace_id, credentialId: row.id, version: row.version },
  ...{ kind: 'webhook', provider: 'receiver' },
})

export const sealedOf = (row: { master_key_id: string; wrapped_key: Buffer; ciphertext: Buffer }): Sealed => ({
  ...{ masterKeyId: row.master_key_id, wrappedKey: row.wrapped_key, ciphertext: row.ciphertext },
})

export async function listWebhooks(db: Db, workspaceId: string, page: Page) {
  const found = await rows.listWebhookRows(db, workspaceId, page)
  const place = (row: WebhookRow) => ({ at: row.created_at, id: row.id })
  const { items, nextCursor } = toPage(found, page.limit, webhookOf, place)
  return { webhooks: items, nextCursor }
}

export async function readWebhookRow(db: Db, workspaceId: string, id: string): Promise<WebhookRow> {
  const row = await rows.findWebhookRow(db, workspaceId, id)
  if (row) return row
  throw missing(id)
}

const missing = (id: string): Problem => new Problem(notFound, `There is no webhook ${id}.`)

type Change = Partial<{ [Name in keyof Wish]: Wish[Name] | undefined }> & {
  enabled?: boolean | undefined
  newSecret?: true | undefined
}

export function updateWebhook(tools: WebhookTools, by: By, { id }: WebhookRow, wish: Change): Promise<ChangedWebhook> {
  const origin = wish.url === undefined ? undefined : requireUrl(tools, wish.url)
  const isResealed = wish.url !== undefined || wish.newSecret === true
  const keyring = isResealed ? requireKeyring(tools) : undefined
  return transact(tools.db, async (tx) => {
    const seal = await keyring?.sealer(tx)
    const before = await rows.lockSealed(tx, by.workspaceId, id)
    if (!before) throw missing(id)
    const secret = wish.newSecret ? newSigningSecret() : undefined
    const version = before.version + 1
    const sealed =
      keyring && seal
        ? { version, sealed: seal(placeOf({ ...before, version }), await resealed(keyring, before, wish.url, secret)) }
        : undefined
    const row = await rows.updateWebhookRow(tx, id, changeOf(wish, origin), sealed)
    const changed = Object.keys(wish).sort().join(', ')
    await record(tx, { ...by, action: 'webhook.updated', subject: id, detail: { origin: row.origin, changed } })
    return { ...webhookOf(row), ...(secret === undefined ? {} : { secret }) }
  })
}

type Sealing = Parameters<typeof placeOf>[0] & Parameters<typeof sealedOf>[0]

/** A secret that is replaced signs along for a day, so that receivers can change over. */
async function resealed(
  keyring: Keyring,
  row: Sealing,
  url: string | undefined,
  secret: string | undefined,
): Promise<Secret> {
  const before = await keyring.open(placeOf(row), sealedOf(row))
  const moved = { ...before, ...(url === undefined ? {} : { url }) }
  if (secret === undefined) return moved
  const oldUntil = new Date(Date.now() + OLD_SECRET_MS).toISOString()
  return { ...moved, secret, old: before.secret ?? '', oldUntil }
}

const changeOf = ({ description, events, enabled }: Change, origin: string | undefined) => ({
  ...(origin === undefined ? {} : { origin }),
  ...(description === undefined ? {} : { description }),
  ...(events === undefined ? {} : { events: distinct(events) }),
  ...(enabled === undefined ? {} : enabled ? ENABLED : DISABLED),
})

const ENABLED = { disabled: null, failing_since: null }
const DISABLED = { disabled: 'asked' } as const

export function removeWebhook(db: Db, by: By, { id, origin }: WebhookRow): Promise<void> {
  return transact(db, async (tx) => {
    if (!(await rows.deleteWebhookRow(tx, by.workspaceId, id))) throw missing(id)
    await setLimit(tx, webhookLimit(id), null)
    await record(tx, { ...by, action: 'webhook.removed', subject: id, detail: { origin } })
  })
}

export const webhookOf = (row: WebhookRow): Webhook => ({
  id: row.id,
  origin: row.origin,
  description: row.description,
  events: row.events.map((event) => WebhookEvent.parse(event)),
  enabled: row.disabled === null,
  disabledReason: Webhook.shape.disabledReason.parse(row.disabled),
  failingSince: row.failing_since?.toISOString() ?? null,
  createdAt: row.created_at.toISOString(),
})
