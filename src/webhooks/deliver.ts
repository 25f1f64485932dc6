import { MasterKeyMissing } from '../credentials/master-key.ts'
import { SealBroken, type Secret } from '../credentials/seal.ts'
import type { Db } from '../platform/db/db.ts'
import { defineJobHandler, type Job, type JobHandler } from '../platform/jobs/jobs.ts'
import { type Outbound, OutboundFailed, OutboundRefused } from '../platform/outbound/outbound.ts'
import { record } from '../workspaces/audit.ts'
import { FAILING_MS, retryAfterMs, waitMs } from './schedule.ts'
import { signedHeaders } from './signature.ts'
import * as rows from './sql.ts'
import { deliverJobType, enqueueDelivery } from './tell.ts'
import { placeOf, sealedOf, type WebhookTools } from './webhooks.ts'

export type DeliverTools = WebhookTools & { outbound: Outbound; version: string; timeoutMs?: number | undefined }

/** A receiver answers at once, and works later. */
const TIMEOUT_MS = 15_000
const GONE = 410

export const deliverJob = (tools: DeliverTools): JobHandler<{ id: string }> =>
  defineJobHandler(deliverJobType, {
    run: (job) => deliver(tools, job),
    onGivenUp: async (tx, { id }, reason) => void (await rows.endDelivery(tx, id, reason.slice(0, 500))),
  })

/**
 * Sends one message. It counts as delivered once the receiver has said so and that is written down: whoever dies in
 * between sends it again, with the same id.
 */
async function deliver(tools: DeliverTools, job: Job<{ id: string }>): Promise<void> {
  const due = await rows.findDue(tools.db, job.payload.id)
  if (!due) return job.finish(async () => {})
  if (due.disabled) return job.finish(async (tx) => void (await rows.endDelivery(tx, due.id, 'It is disabled.')))
  const attempt = await send(tools, due, job.signal)
  await job.finish((tx) => settle(tx, due, attempt))
}

type Attempt = { status: number | null; error: string | null; tookMs: number; retryAfterMs?: number | undefined }

async function send(tools: DeliverTools, due: rows.Due, signal: AbortSignal): Promise<Attempt> {
  const started = performance.now()
  const took = () => Math.round(performance.now() - started)
  try {
    const sealed = await openSealed(tools, due)
    return { ...(await ask(tools, due, sealed, signal)), tookMs: took() }
  } catch (error) {
    signal.throwIfAborted() // nothing was wrong with the receiver
    const isKnown = [OutboundFailed, OutboundRefused, SealBroken, MasterKeyMissing].some(
      (kind) => error instanceof kind,
    )
    if (!isKnown || !(error instanceof Error)) throw error
    return { status: null, error: error.message, tookMs: took() }
  }
}

function openSealed({ keyring }: DeliverTools, due: rows.Due): Promise<Secret> {
  if (!keyring) throw new MasterKeyMissing('Credential storage is off here, so the secret cannot be opened.')
  return keyring.open(placeOf({ ...due, id: due.webhook }), sealedOf(due))
}

/** What it says is not read, however much it is; and where it sends us, nobody goes. */
async function ask(
  { outbound, webhookTrust, version, timeoutMs = TIMEOUT_MS }: DeliverTools,
  { id, body }: rows.Due,
  { url = '', secret = '', old, oldUntil }: Secret,
  signal: AbortSignal,
): Promise<Omit<Attempt, 'tookMs'>> {
  const secrets = old && oldUntil && new Date(oldUntil) > new Date() ? [secret, old] : [secret]
  const signed = signedHeaders({ id, at: new Date(), body }, secrets)
  const headers = { 'content-type': 'application/json', 'user-agent': `assay/${version}`, ...signed }
  const answer = await outbound.fetch(url, {
    ...{ method: 'POST', headers, body, signal },
    ...{ trust: webhookTrust, redirect: 'manual', timeoutMs },
  })
  await answer.body?.cancel()
  if (answer.ok) return { status: answer.status, error: null }
  const error = `The receiver answered ${answer.status}.`
  return { status: answer.status, error, retryAfterMs: retryAfterMs(answer.headers.get('retry-after'), Date.now()) }
}

async function settle(tx: Db, due: rows.Due, attempt: Attempt): Promise<void> {
  const attempts = due.attempts + 1
  const { status, error, tookMs: took_ms } = attempt
  const told = { attempts, status, error, took_ms }
  if (error === null) {
    await rows.storeAttempt(tx, due.id, { ...told, state: 'delivered', next_at: null })
    return void (await rows.noteArrived(tx, due.webhook))
  }
  const wait = waitMs(attempts, attempt.retryAfterMs, Math.random())
  const isOver = (await disabledNow(tx, due, status)) || wait === undefined
  const next_at = isOver ? null : new Date(Date.now() + wait)
  await rows.storeAttempt(tx, due.id, { ...told, state: next_at ? 'pending' : 'failed', next_at })
  if (next_at) await enqueueDelivery(tx, due, next_at)
}

/** Whether nothing will be sent there any more. The log of the workspace says so too. */
async function disabledNow(tx: Db, { webhook, workspace_id }: rows.Due, status: number | null): Promise<boolean> {
  const since = await rows.noteFailing(tx, webhook)
  if (!since) return true
  const isFailing = Date.now() - since.getTime() > FAILING_MS
  if (status !== GONE && !isFailing) return false
  const reason = status === GONE ? 'gone' : 'failing'
  if (await rows.disableWebhook(tx, webhook, reason))
    await record(tx, {
      ...{ workspaceId: workspace_id, actor: 'system', action: 'webhook.disabled', subject: webhook },
      detail: { reason },
    })
  return true
}

const DAYS = 30

export const sweepDeliveries = async (db: Db): Promise<void> => void (await rows.deleteOldDeliveries(db, DAYS))
