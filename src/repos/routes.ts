import { permits } from '../platform/http/caller.ts'
import { reply } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { forbidden, Problem } from '../platform/problem.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import {
  connectRepository,
  listRepositories,
  type RepositoryDeps,
  readRepository,
  removeRepository,
  toRepository,
} from './repos.ts'
import * as schema from './schema.ts'

export const repositoryRoutes = (deps: RepositoryDeps): Route[] => [
  route(schema.listRepositories, async ({ db, caller, query }) =>
    reply(200, await listRepositories(db, caller.workspace.id, query)),
  ),
  route(schema.connectRepository, async ({ caller, params, body, requestId }) => {
    const writer = { ...toAuditActor(caller, requestId), mayWithdraw: permits(caller.permission, 'admin') }
    const { kind, repository } = await connectRepository(deps, writer, params, body)
    return reply(kind === 'connected' ? 201 : 200, repository)
  }),
  route(schema.readRepository, async ({ db, caller, params }) =>
    reply(200, toRepository(await readRepository(db, { workspaceId: caller.workspace.id, ...params }))),
  ),
  route(schema.removeRepository, async ({ caller, params, query, requestId }) => {
    const withdraw = query.withdraw === undefined ? undefined : query.withdraw === 'true'
    if (withdraw && !permits(caller.permission, 'admin'))
      throw new Problem(forbidden, 'Withdrawing a release requires a key with permission admin.')
    await removeRepository(
      deps,
      toAuditActor(caller, requestId),
      { workspaceId: caller.workspace.id, ...params },
      withdraw,
    )
    return reply(204)
  }),
]
