import { z } from 'zod'
import type { Db } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import { defineJobType, enqueue } from '../platform/jobs/jobs.ts'
import type { WebhookEvent } from './schema.ts'
import { type DeliveryRow, insertDelivery, listListening } from './sql.ts'

/** What has happened, in words with which it can be looked up. */
export type Happened =
  | { type: 'benchmark.added'; data: { benchmark: string; digest: string } }
  | { type: 'batch.completed'; data: { repository: string; runId: string } }
  | { type: 'batch.failed'; data: { repository: string; runId: string; error: { code: string; message: string } } }
  | { type: 'comparison.completed'; data: Compared }
  | { type: 'comparison.paused'; data: Compared & { pause: { reason: string; message: string } } }
  | { type: 'comparison.submission_failed'; data: Compared & { error: { code: string; message: string } } }
  | { type: 'release.published'; data: { repository: string; releaseId: string } }
  | { type: 'release.withdrawn'; data: { repository: string; releaseId: string; reason: string } }

type Compared = { comparisonId: string; scope: { kind: string; owner: string; name: string } }

/** Tells every webhook of the workspace that listens, in the transaction of what happened: both, or neither. */
export async function tell(tx: Db, workspaceId: string, { type, data }: Happened): Promise<void> {
  for (const webhook of await listListening(tx, workspaceId, type)) await post(tx, webhook, type, data)
}

export const deliverJobType = defineJobType({ type: 'webhook.deliver', payload: z.strictObject({ id: z.uuid() }) })

export const webhookLimit = (webhook: string): string => `webhook ${webhook}`

/** One message, and the job that sends it. */
export async function post(
  tx: Db,
  webhook: string,
  type: WebhookEvent | 'webhook.test',
  data: object,
): Promise<DeliveryRow> {
  const id = newId()
  const body = JSON.stringify({ type, timestamp: new Date().toISOString(), data })
  const row = await insertDelivery(tx, { id, webhook, event: type, body })
  await enqueueDelivery(tx, { id, webhook })
  return row
}

/** The job has the message's id: however often it is asked for, it is sent by one at a time. */
export const enqueueDelivery = (tx: Db, { id, webhook }: { id: string; webhook: string }, runAt?: Date) =>
  enqueue(tx, deliverJobType, { id }, { id, limitKeys: [webhookLimit(webhook)], runAt })
