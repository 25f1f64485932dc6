import { reply } from '../../platform/http/endpoint.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { toAuditActor } from '../../workspaces/audit.ts'
import { storeBundle } from './bundles.ts'
import { addHarness, type CustomHarnessDeps, listHarnessPage, removeHarness } from './custom-harnesses.ts'
import * as schema from './schema.ts'

export const harnessRoutes = (deps: CustomHarnessDeps): Route[] => [
  route(schema.addHarness, async ({ db, caller, body, requestId }) => {
    const { kind, harness } = await addHarness(deps, db, toAuditActor(caller, requestId), body)
    return reply(kind === 'added' ? 201 : 200, harness)
  }),
  route(schema.sendBundle, async ({ db, caller, upload, requestId }) => {
    const { kind, bundle } = await storeBundle({ ...deps, db }, toAuditActor(caller, requestId), upload)
    return reply(kind === 'stored' ? 201 : 200, bundle)
  }),
  route(schema.listHarnesses, async ({ db, caller, query }) =>
    reply(200, await listHarnessPage(db, caller.workspace.id, query)),
  ),
  route(schema.removeHarness, async ({ db, caller, params, requestId }) => {
    await removeHarness(deps, db, toAuditActor(caller, requestId), `custom/${params.slug}`)
    return reply(204)
  }),
]
