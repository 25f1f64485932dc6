import { z } from 'zod'
import type { Db } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import { defineJobType, enqueue, setLimit } from '../platform/jobs/jobs.ts'
import type { Answer } from '../statistics/answer.ts'
import type { WebhookEvent } from './schema.ts'
import { type DeliveryRow, insertDelivery, listSubscribed } from './sql.ts'

/** Types and data of webhook events. The data identifies the object; receivers read the rest through the API. */
type WebhookPayload =
  | { type: 'benchmark.added'; data: { benchmark: string; digest: string } }
  | { type: 'batch.completed'; data: { repository: string; runId: string } }
  | { type: 'batch.failed'; data: { repository: string; runId: string; error: { code: string; message: string } } }
  | { type: 'comparison.completed'; data: ComparisonRef & { answer: Answer } }
  | { type: 'comparison.paused'; data: ComparisonRef & { pause: { reason: string; message: string } } }
  | { type: 'comparison.submission_failed'; data: ComparisonRef & { error: { code: string; message: string } } }
  | { type: 'release.published'; data: { repository: string; releaseId: string } }
  | { type: 'release.withdrawn'; data: { repository: string; releaseId: string; reason: string } }

type ComparisonRef = { comparisonId: string; scope: { kind: string; owner: string; name: string } }

/** Creates a delivery for every subscribed webhook of the workspace, in the transaction of the event. */
export async function emitEvent(tx: Db, workspaceId: string, { type, data }: WebhookPayload): Promise<void> {
  for (const webhook of await listSubscribed(tx, workspaceId, type))
    await createDelivery(tx, { webhook, workspaceId }, type, data)
}

/** Returns true if an enabled webhook of the workspace receives the event. */
export const isSubscribed = async (tx: Db, workspaceId: string, event: WebhookEvent): Promise<boolean> =>
  (await listSubscribed(tx, workspaceId, event)).length > 0

export const deliverJobType = defineJobType({ type: 'webhook.deliver', payload: z.strictObject({ id: z.uuid() }) })

/** Returns the key of the limit on concurrent deliveries of a webhook. */
export const toWebhookLimitKey = (webhook: string): string => `webhook ${webhook}`

/** Maximum number of deliveries of a workspace that are sent at once. */
const DELIVERIES_PER_WORKSPACE = 4

/** Limits the deliveries of each workspace, so that receivers that never answer do not delay other workspaces. */
export const limitDeliveries = (db: Db): Promise<void> => setLimit(db, 'deliveries', DELIVERIES_PER_WORKSPACE)

type DeliveryTarget = { webhook: string; workspaceId: string }

/** Stores a message and enqueues the job that sends it. */
export async function createDelivery(
  tx: Db,
  { webhook, workspaceId }: DeliveryTarget,
  type: WebhookEvent | 'webhook.test',
  data: object,
): Promise<DeliveryRow> {
  const id = newId()
  const body = JSON.stringify({ type, timestamp: new Date().toISOString(), data })
  const row = await insertDelivery(tx, { id, webhook, event: type, body })
  await enqueueDelivery(tx, { id, webhook, workspaceId })
  return row
}

/** Enqueues a delivery. The job has the id of the message, so that at most one job sends it at a time. */
export const enqueueDelivery = (tx: Db, { id, webhook, workspaceId }: DeliveryTarget & { id: string }, runAt?: Date) =>
  enqueue(
    tx,
    deliverJobType,
    { id },
    {
      id,
      fairGroup: `${workspaceId}/deliveries`,
      limitKeys: [toWebhookLimitKey(webhook), `deliveries ${workspaceId}`],
      runAt,
    },
  )
