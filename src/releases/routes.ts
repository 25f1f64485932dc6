import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { reply } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { readRepository } from '../repos/repos.ts'
import { by } from '../workspaces/audit.ts'
import { putEndorsement, readEndorsement, removeEndorsement, verifyWorkspace } from './endorse.ts'
import { previewRelease, readStanding } from './preview.ts'
import { publishRelease, type ReleaseTools } from './publish.ts'
import {
  listReleases,
  publishedOf,
  readRelease,
  readReleasedRepository,
  readReleaseRow,
  withdrawRelease,
} from './releases.ts'
import * as schema from './schema.ts'

export const releaseRoutes = (tools: ReleaseTools): Route[] => [
  ...publishRoutes(tools),
  ...readRoutes(tools),
  ...endorsementRoutes(tools),
]

/** The next read of whoever changed something sees it; other processes hear of it a moment later. */
const changing = <T>({ forget }: ReleaseTools, work: Promise<T>): Promise<T> => work.finally(forget)

type Found<P> = { db: Db; caller: KeyCaller; params: P }
type InRepository = { owner: string; name: string }

const findRepository = ({ db, caller, params: { owner, name } }: Found<InRepository>) =>
  readRepository(db, { workspaceId: caller.workspace.id, owner, name })

const findReleased = ({ db, caller, params: { owner, name } }: Found<InRepository>) =>
  readReleasedRepository(db, { workspaceId: caller.workspace.id, owner, name })

const findRelease = ({ db, caller, params: { owner, name, releaseId } }: Found<InRepository & { releaseId: string }>) =>
  readReleaseRow(db, { workspaceId: caller.workspace.id, owner, name }, releaseId.toLowerCase())

const publishRoutes = (tools: ReleaseTools): Route[] => [
  route(schema.previewRelease, findRepository, async ({ db, caller, query }, repository) => {
    const standing = await readStanding(db, repository, caller.workspace)
    return reply(200, await previewRelease({ ...tools, db }, standing, query.setting))
  }),
  route(schema.publishRelease, findRepository, async ({ caller, body, requestId }, repository) => {
    const place = { repository, publisher: caller.workspace }
    const { kind, row } = await changing(tools, publishRelease(tools, by(caller, requestId), place, body))
    const url = `${tools.publicUrl()}/api/public/results/${row.owner}/${row.name}`
    return reply(kind === 'published' ? 201 : 200, { ...publishedOf(row, row), url })
  }),
]

const readRoutes = (tools: ReleaseTools): Route[] => [
  route(schema.listReleases, findReleased, async ({ db, query }, repository) =>
    reply(200, await listReleases(db, repository, query)),
  ),
  route(schema.readRelease, findRelease, async ({ db }, row) => reply(200, await readRelease(db, row))),
  route(schema.withdrawRelease, findRelease, async ({ db, caller, body, requestId }, row) =>
    reply(200, await changing(tools, withdrawRelease({ ...tools, db }, by(caller, requestId), row, body.reason))),
  ),
]

const endorsementRoutes = (tools: ReleaseTools): Route[] => [
  route(schema.putEndorsement, async ({ db, caller, params, requestId }) =>
    reply(
      200,
      await changing(tools, putEndorsement({ ...tools, db }, by(caller, requestId), caller.workspace, params)),
    ),
  ),
  route(schema.readEndorsement, async ({ db, caller, params }) =>
    reply(200, await readEndorsement(db, caller.workspace, params)),
  ),
  route(schema.deleteEndorsement, async ({ db, caller, params, requestId }) => {
    await changing(tools, removeEndorsement({ ...tools, db }, by(caller, requestId), caller.workspace, params))
    return reply(204)
  }),
  route(schema.verifyWorkspace, async ({ db, params, requestId }) =>
    reply(200, await changing(tools, verifyWorkspace({ ...tools, db }, params.login, true, requestId))),
  ),
  route(schema.unverifyWorkspace, async ({ db, params, requestId }) => {
    await changing(tools, verifyWorkspace({ ...tools, db }, params.login, false, requestId))
    return reply(204)
  }),
]
