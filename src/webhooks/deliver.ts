import { MasterKeyMissing } from '../credentials/master-key.ts'
import { SealBroken, type Secret } from '../credentials/seal.ts'
import type { Db } from '../platform/db/db.ts'
import { defineJobHandler, type Job, type JobHandler } from '../platform/jobs/jobs.ts'
import { type Outbound, OutboundFailed, OutboundRefused } from '../platform/outbound/outbound.ts'
import { parseRetryAfterMs } from '../platform/retry-delay.ts'
import { record } from '../workspaces/audit.ts'
import { deliverJobType, enqueueDelivery } from './emit.ts'
import * as rows from './sql.ts'
import { buildSignedHeaders, toSealed, toSecretContext, type WebhookDeps } from './webhooks.ts'

type DeliveryDeps = WebhookDeps & { outbound: Outbound; version: string; timeoutMs?: number | undefined }

/** Receivers are expected to acknowledge immediately and process asynchronously. */
const TIMEOUT_MS = 15_000
const GONE = 410

export const deliverJob = (deps: DeliveryDeps): JobHandler<{ id: string }> =>
  defineJobHandler(deliverJobType, {
    run: (job) => deliver(deps, job),
    onGivenUp: async (tx, { id }, reason) => void (await rows.failDelivery(tx, id, reason.slice(0, 500))),
  })

/**
 * Sends one message. At-least-once: if the worker dies between the response and the commit, the message is sent again with
 * the same id.
 */
async function deliver(deps: DeliveryDeps, job: Job<{ id: string }>): Promise<void> {
  const delivery = await rows.findPendingDelivery(deps.db, job.payload.id)
  if (!delivery) return job.finish(async () => {})
  if (delivery.disabled)
    return job.finish(async (tx) => void (await rows.failDelivery(tx, delivery.id, 'The webhook is disabled.')))
  const attempt = await attemptDelivery(deps, delivery, job.signal)
  await job.finish((tx) => settleDelivery(tx, delivery, attempt))
}

type DeliveryAttempt = {
  status: number | null
  error: string | null
  tookMs: number
  retryAfterMs?: number | undefined
}

async function attemptDelivery(
  deps: DeliveryDeps,
  delivery: rows.PendingDelivery,
  signal: AbortSignal,
): Promise<DeliveryAttempt> {
  const started = performance.now()
  const readElapsedMs = () => Math.round(performance.now() - started)
  try {
    const secret = await openWebhookSecret(deps, delivery)
    return { ...(await postMessage(deps, delivery, secret, signal)), tookMs: readElapsedMs() }
  } catch (error) {
    signal.throwIfAborted() // An abort is not a failure of the receiver.
    const isKnown = [OutboundFailed, OutboundRefused, SealBroken, MasterKeyMissing].some(
      (kind) => error instanceof kind,
    )
    if (!isKnown || !(error instanceof Error)) throw error
    return { status: null, error: error.message, tookMs: readElapsedMs() }
  }
}

function openWebhookSecret({ keyring }: DeliveryDeps, delivery: rows.PendingDelivery): Promise<Secret> {
  if (!keyring)
    throw new MasterKeyMissing(
      'Credential storage is off, so the webhook secret cannot be decrypted. Set ASSAY_SECRET_KEY.',
    )
  return keyring.open(toSecretContext({ ...delivery, id: delivery.webhook }), toSealed(delivery))
}

/** Posts the message. The response body is discarded and redirects are not followed. */
async function postMessage(
  { outbound, webhookTrust, version, timeoutMs = TIMEOUT_MS }: DeliveryDeps,
  { id, body }: rows.PendingDelivery,
  { url = '', secret = '', old, oldUntil }: Secret,
  signal: AbortSignal,
): Promise<Omit<DeliveryAttempt, 'tookMs'>> {
  const secrets = old && oldUntil && new Date(oldUntil) > new Date() ? [secret, old] : [secret]
  const signed = buildSignedHeaders({ id, at: new Date(), body }, secrets)
  const headers = { 'content-type': 'application/json', 'user-agent': `assay/${version}`, ...signed }
  const response = await outbound.fetch(url, {
    method: 'POST',
    headers,
    body,
    signal,
    trust: webhookTrust,
    redirect: 'manual',
    timeoutMs,
  })
  await response.body?.cancel()
  if (response.ok) return { status: response.status, error: null }
  const error = `The receiver responded with status ${response.status}.`
  return {
    status: response.status,
    error,
    retryAfterMs: parseRetryAfterMs(response.headers.get('retry-after'), Date.now()),
  }
}

async function settleDelivery(tx: Db, delivery: rows.PendingDelivery, attempt: DeliveryAttempt): Promise<void> {
  const attempts = delivery.attempts + 1
  const { status, error, tookMs: took_ms } = attempt
  const result = { attempts, status, error, took_ms }
  if (error === null) {
    await rows.storeAttempt(tx, delivery.id, { ...result, state: 'delivered', next_at: null })
    await rows.clearFailing(tx, delivery.webhook)
    return
  }
  const waitMs = computeWaitMs(attempts, attempt.retryAfterMs, Math.random())
  const isLast = (await disableIfDead(tx, delivery, status)) || waitMs === undefined
  const next_at = isLast ? null : new Date(Date.now() + waitMs)
  await rows.storeAttempt(tx, delivery.id, { ...result, state: next_at ? 'pending' : 'failed', next_at })
  if (next_at) await enqueueDelivery(tx, { ...delivery, workspaceId: delivery.workspace_id }, next_at)
}

/** Disables a webhook that answered 410 or has failed for too long, with an audit event. Returns true if it is disabled. */
async function disableIfDead(
  tx: Db,
  { webhook, workspace_id }: rows.PendingDelivery,
  status: number | null,
): Promise<boolean> {
  const failingSince = await rows.markFailing(tx, webhook)
  if (!failingSince) return true
  const isFailingTooLong = Date.now() - failingSince.getTime() > FAILING_MAX_MS
  if (status !== GONE && !isFailingTooLong) return false
  const reason = status === GONE ? 'gone' : 'failing'
  if (await rows.disableWebhook(tx, webhook, reason))
    await record(tx, {
      workspaceId: workspace_id,
      actor: 'system',
      action: 'webhook.disabled',
      subject: webhook,
      detail: { reason },
    })
  return true
}

const RETENTION_DAYS = 30

export const sweepDeliveries = async (db: Db): Promise<void> =>
  void (await rows.deleteOldDeliveries(db, RETENTION_DAYS))

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

/** Delays after each failed attempt, as proposed by Standard Webhooks; about three days in total. */
const WAITS_MS = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
]

/** A webhook is disabled after failing for this long. */
const FAILING_MAX_MS = 72 * HOUR_MS

const WAIT_MAX_MS = 24 * HOUR_MS

/** Computes the delay before the next attempt, with up to 10 % jitter. Undefined after the last attempt. */
function computeWaitMs(attempts: number, retryAfterMs: number | undefined, random: number): number | undefined {
  const waitMs = WAITS_MS[attempts - 1]
  if (waitMs === undefined) return undefined
  return Math.round(Math.max(waitMs * (1 + random / 10), Math.min(retryAfterMs ?? 0, WAIT_MAX_MS)))
}
