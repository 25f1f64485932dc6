import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { reply } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { readRepository } from '../repos/repos.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import { putEndorsement, readEndorsement, removeEndorsement, verifyWorkspace } from './endorse.ts'
import { loadReleaseContext, previewRelease } from './preview.ts'
import { publishRelease, type ReleaseDeps } from './publish.ts'
import {
  listReleases,
  readRelease,
  readReleasedRepository,
  readReleaseRow,
  toPublishedRelease,
  withdrawRelease,
} from './releases.ts'
import * as schema from './schema.ts'

export const releaseRoutes = (deps: ReleaseDeps): Route[] => [
  ...publishRoutes(deps),
  ...readRoutes(deps),
  ...endorsementRoutes(deps),
]

/** Clears the results cache after a change, so that the caller's next read sees it. Other processes are notified. */
const clearCacheAfter = <T>({ clearResults }: ReleaseDeps, work: Promise<T>): Promise<T> => work.finally(clearResults)

type ReleaseRequest<P> = { db: Db; caller: KeyCaller; params: P }
type ReleaseRepositoryParams = { owner: string; name: string }

const findRepository = ({ db, caller, params: { owner, name } }: ReleaseRequest<ReleaseRepositoryParams>) =>
  readRepository(db, { workspaceId: caller.workspace.id, owner, name })

const findReleased = ({ db, caller, params: { owner, name } }: ReleaseRequest<ReleaseRepositoryParams>) =>
  readReleasedRepository(db, { workspaceId: caller.workspace.id, owner, name })

const findRelease = ({
  db,
  caller,
  params: { owner, name, releaseId },
}: ReleaseRequest<ReleaseRepositoryParams & { releaseId: string }>) =>
  readReleaseRow(db, { workspaceId: caller.workspace.id, owner, name }, releaseId.toLowerCase())

const publishRoutes = (deps: ReleaseDeps): Route[] => [
  route(schema.previewRelease, findRepository, async ({ db, caller, query }, repository) => {
    const context = await loadReleaseContext(db, repository, caller.workspace)
    return reply(200, await previewRelease({ ...deps, db }, context, query.setting))
  }),
  route(schema.publishRelease, findRepository, async ({ caller, body, requestId }, repository) => {
    const target = { repository, publisher: caller.workspace }
    const { kind, row } = await clearCacheAfter(
      deps,
      publishRelease(deps, toAuditActor(caller, requestId), target, body),
    )
    const url = `${deps.publicUrl()}/results/${row.owner}/${row.name}`
    return reply(kind === 'published' ? 201 : 200, { ...toPublishedRelease(row, row), url })
  }),
]

const readRoutes = (deps: ReleaseDeps): Route[] => [
  route(schema.listReleases, findReleased, async ({ db, query }, repository) =>
    reply(200, await listReleases(db, repository, query)),
  ),
  route(schema.readRelease, findRelease, async ({ db }, row) => reply(200, await readRelease(db, row))),
  route(schema.withdrawRelease, findRelease, async ({ db, caller, body, requestId }, row) =>
    reply(
      200,
      await clearCacheAfter(deps, withdrawRelease({ ...deps, db }, toAuditActor(caller, requestId), row, body.reason)),
    ),
  ),
]

const endorsementRoutes = (deps: ReleaseDeps): Route[] => [
  route(schema.putEndorsement, async ({ db, caller, params, requestId }) =>
    reply(
      200,
      await clearCacheAfter(
        deps,
        putEndorsement({ ...deps, db }, toAuditActor(caller, requestId), caller.workspace, params),
      ),
    ),
  ),
  route(schema.readEndorsement, async ({ db, caller, params }) =>
    reply(200, await readEndorsement(db, caller.workspace, params)),
  ),
  route(schema.deleteEndorsement, async ({ db, caller, params, requestId }) => {
    await clearCacheAfter(
      deps,
      removeEndorsement({ ...deps, db }, toAuditActor(caller, requestId), caller.workspace, params),
    )
    return reply(204)
  }),
  route(schema.verifyWorkspace, async ({ db, params, requestId }) =>
    reply(
      200,
      await clearCacheAfter(
        deps,
        verifyWorkspace({ ...deps, db }, { login: params.login, isVerified: true, requestId }),
      ),
    ),
  ),
  route(schema.unverifyWorkspace, async ({ db, params, requestId }) => {
    await clearCacheAfter(deps, verifyWorkspace({ ...deps, db }, { login: params.login, isVerified: false, requestId }))
    return reply(204)
  }),
]
