import { reply } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { by } from '../workspaces/audit.ts'
import {
  connectRepository,
  listRepositories,
  type RepositoryTools,
  readRepository,
  removeRepository,
  repositoryOf,
} from './repos.ts'
import * as schema from './schema.ts'

export const repositoryRoutes = (tools: RepositoryTools): Route[] => [
  route(schema.listRepositories, async ({ db, caller, query }) =>
    reply(200, await listRepositories(db, caller.workspace.id, query)),
  ),
  route(schema.connectRepository, async ({ caller, params, body, requestId }) => {
    const { kind, repository } = await connectRepository(tools, by(caller, requestId), params, body)
    return reply(kind === 'connected' ? 201 : 200, repository)
  }),
  route(schema.readRepository, async ({ db, caller, params }) =>
    reply(200, repositoryOf(await readRepository(db, { workspaceId: caller.workspace.id, ...params }))),
  ),
  route(schema.removeRepository, async ({ caller, params, requestId }) => {
    await removeRepository(tools, by(caller, requestId), { workspaceId: caller.workspace.id, ...params })
    return reply(204)
  }),
]
