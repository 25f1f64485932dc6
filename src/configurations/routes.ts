import { reply } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import {
  type ConfigurationDeps,
  createConfiguration,
  listConfigurationPage,
  readConfiguration,
} from './configurations.ts'
import * as schema from './schema.ts'

export const configurationRoutes = ({ blobs }: Pick<ConfigurationDeps, 'blobs'>): Route[] => [
  route(schema.createConfiguration, async ({ db, caller, body, requestId }) => {
    const { kind, configuration } = await createConfiguration({ db, blobs }, toAuditActor(caller, requestId), body)
    return reply(kind === 'created' ? 201 : 200, configuration)
  }),
  route(schema.listConfigurations, async ({ db, caller, query }) =>
    reply(200, await listConfigurationPage(db, caller.workspace.id, query)),
  ),
  route(schema.readConfiguration, async ({ db, caller, params, query }) =>
    reply(200, await readConfiguration({ db, blobs }, caller.workspace.id, params.name, query.version)),
  ),
]
