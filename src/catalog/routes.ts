import { reply } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import { addModel, type CustomModelDeps, listModelPage, removeModel } from './custom-models.ts'
import * as schema from './schema.ts'

export const modelRoutes = (deps: CustomModelDeps): Route[] => [
  route(schema.addModel, async ({ db, caller, body, requestId }) => {
    const trust = await deps.findModelTrust(caller.workspace.id)
    const { kind, model } = await addModel(db, toAuditActor(caller, requestId), body, trust)
    return reply(kind === 'added' ? 201 : 200, model)
  }),
  route(schema.listModels, async ({ db, caller, query }) =>
    reply(200, await listModelPage(db, caller.workspace.id, query)),
  ),
  route(schema.removeModel, async ({ db, caller, params, requestId }) => {
    await removeModel(deps, db, toAuditActor(caller, requestId), `custom/${params.slug}`)
    return reply(204)
  }),
]
