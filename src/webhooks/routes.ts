import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { reply } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import * as schema from './schema.ts'
import {
  createWebhook,
  listDeliveries,
  listWebhooks,
  readDelivery,
  readWebhookRow,
  redeliver,
  removeWebhook,
  testWebhook,
  toWebhook,
  updateWebhook,
  type WebhookDeps,
} from './webhooks.ts'

type WebhookRequest<P> = { db: Db; caller: KeyCaller; params: P }

const findWebhook = ({ db, caller, params }: WebhookRequest<{ webhookId: string }>) =>
  readWebhookRow(db, caller.workspace.id, params.webhookId)

const findDelivery = async (request: WebhookRequest<{ webhookId: string; deliveryId: string }>) => {
  const webhook = await findWebhook(request)
  return { webhook, delivery: await readDelivery(request.db, webhook, request.params.deliveryId) }
}

export const webhookRoutes = (deps: WebhookDeps): Route[] => [
  route(schema.createWebhook, async ({ db, caller, body, requestId }) =>
    reply(201, await createWebhook({ ...deps, db }, toAuditActor(caller, requestId), body)),
  ),
  route(schema.listWebhooks, async ({ db, caller, query }) =>
    reply(200, await listWebhooks(db, caller.workspace.id, query)),
  ),
  route(schema.readWebhook, findWebhook, async (_call, webhook) => reply(200, toWebhook(webhook))),
  route(schema.updateWebhook, findWebhook, async ({ db, caller, body, requestId }, webhook) =>
    reply(200, await updateWebhook({ ...deps, db }, toAuditActor(caller, requestId), webhook, body)),
  ),
  route(schema.deleteWebhook, findWebhook, async ({ db, caller, requestId }, webhook) => {
    await removeWebhook(db, toAuditActor(caller, requestId), webhook)
    return reply(204)
  }),
  route(schema.testWebhook, findWebhook, async ({ db }, webhook) => reply(202, await testWebhook(db, webhook))),
  route(schema.listDeliveries, findWebhook, async ({ db, query }, webhook) =>
    reply(200, await listDeliveries(db, webhook, query)),
  ),
  route(schema.readDelivery, findDelivery, async (_call, { delivery }) => reply(200, delivery)),
  route(schema.redeliver, findDelivery, async ({ db }, { webhook, delivery }) =>
    reply(202, await redeliver(db, webhook, delivery)),
  ),
]
