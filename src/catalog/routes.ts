import { reply } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import * as harnessSchema from './custom-harnesses/schema.ts'
import { addModel, type CustomModelDeps, listModelPage, removeModel } from './custom-models.ts'
import {
  addHarness,
  type CustomHarnessDeps,
  listHarnessPage,
  measureBundle,
  removeHarness,
  storeBundle,
} from './harnesses.ts'
import * as schema from './schema.ts'

export const modelRoutes = (deps: CustomModelDeps): Route[] => [
  route(schema.addModel, async ({ db, caller, body, requestId }) => {
    const trust = await deps.findModelTrust(db, caller.workspace.id)
    const { kind, model } = await addModel(db, toAuditActor(caller, requestId), body, trust)
    return reply(kind === 'stored' ? 201 : 200, model)
  }),
  route(schema.listModels, async ({ db, caller, query }) =>
    reply(200, await listModelPage(db, caller.workspace.id, query)),
  ),
  route(schema.removeModel, async ({ db, caller, params, requestId }) => {
    await removeModel(deps, db, toAuditActor(caller, requestId), `custom/${params.slug}`)
    return reply(204)
  }),
]

export const harnessRoutes = (deps: CustomHarnessDeps): Route[] => [
  route(harnessSchema.addHarness, async ({ db, caller, body, requestId }) => {
    const { kind, harness } = await addHarness(deps, db, toAuditActor(caller, requestId), body)
    return reply(kind === 'added' ? 201 : 200, harness)
  }),
  route(
    harnessSchema.sendBundle,
    ({ upload }) => measureBundle(upload),
    async ({ db, caller, upload, requestId }, bundle) => {
      const by = toAuditActor(caller, requestId)
      const kind = await storeBundle({ ...deps, db }, by, { path: upload.path, bundle })
      return reply(kind === 'stored' ? 201 : 200, bundle)
    },
  ),
  route(harnessSchema.listHarnesses, async ({ db, caller, query }) =>
    reply(200, await listHarnessPage(db, caller.workspace.id, query)),
  ),
  route(harnessSchema.removeHarness, async ({ db, caller, params, requestId }) => {
    await removeHarness(deps, db, toAuditActor(caller, requestId), `custom/${params.slug}`)
    return reply(204)
  }),
]
