import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { reply, replyEvents, replyFile } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { Problem, preconditionFailed, preconditionRequired } from '../platform/problem.ts'
import { type RepositoryDeps, readRepository, requireConnectable, requireRepository } from '../repos/repos.ts'
import { readOptions } from '../taskgen/pipeline/options.ts'
import { type PreviewDeps, previewBatch } from '../taskgen/pipeline/preview.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import {
  batchEvents,
  cancelBatch,
  createBatch,
  importBatch,
  listBatches,
  readBatchRow,
  readRun,
  resumeBatch,
} from './batches.ts'
import { decide } from './decide.ts'
import { type EditFileDeps, editFile } from './edit.ts'
import * as schema from './schema.ts'
import {
  listTasks,
  openTaskArchive,
  openTaskFile,
  readFileFacts,
  readTaskDetail,
  readTaskRow,
  toEtag,
} from './tasks.ts'

type BatchRoutesDeps = RepositoryDeps & { blobs: Blobs } & EditFileDeps & PreviewDeps

export const batchRoutes = (deps: BatchRoutesDeps): Route[] => [
  ...generationRoutes(deps),
  ...startRoutes(deps),
  ...watchRoutes(),
  ...taskRoutes(deps),
  ...decisionRoutes(),
]

type RouteContext<P> = { db: Db; caller: KeyCaller; params: P }
type RepositoryParams = { owner: string; name: string }
type BatchPathParams = RepositoryParams & { runId: string }

const toRepositoryRef = ({ caller, params }: Omit<RouteContext<RepositoryParams>, 'db'>) => ({
  workspaceId: caller.workspace.id,
  owner: params.owner,
  name: params.name,
})

const readPathBatch = ({ db, caller, params }: RouteContext<BatchPathParams>) =>
  readBatchRow(db, toRepositoryRef({ caller, params }), params.runId)

const readPathTask = async (context: RouteContext<BatchPathParams & { taskId: string }>) => {
  const { id } = await readPathBatch(context)
  return readTaskRow(context.db, id, context.params.taskId)
}

const readPathRepository = ({ db, caller, params }: RouteContext<RepositoryParams>) =>
  readRepository(db, toRepositoryRef({ caller, params }))

const generationRoutes = (deps: BatchRoutesDeps): Route[] => [
  route(
    schema.readGenerationOptions,
    ({ caller, params }) => requireConnectable(deps, toRepositoryRef({ caller, params })),
    async ({ db, caller }) => reply(200, await readOptions({ ...deps, db }, caller.workspace)),
  ),
  route(
    schema.createBatch,
    ({ caller, params }) => requireRepository(deps, toAuditActor(caller), toRepositoryRef({ caller, params })),
    async ({ db, caller, body, requestId }, { key }) => {
      const options = await readOptions({ ...deps, db }, caller.workspace)
      return reply(
        202,
        await createBatch(db, toAuditActor(caller, requestId), { repository: key, options, request: body }),
      )
    },
  ),
  route(schema.previewBatch, readPathRepository, async ({ caller, body, signal, onProgress }, row) => {
    const repository = { ...row, workspaceId: caller.workspace.id }
    return reply(200, await previewBatch(deps, repository, body, { signal, onProgress }))
  }),
]

function startRoutes(deps: BatchRoutesDeps): Route[] {
  return [
    route(
      schema.importBatch,
      ({ caller, params }) => requireRepository(deps, toAuditActor(caller), toRepositoryRef({ caller, params })),
      async ({ db, caller, upload, requestId }, { key }) =>
        reply(202, await importBatch(deps, toAuditActor(caller, requestId), { ...upload, repository: key, db })),
    ),
    route(schema.cancelBatch, readPathBatch, async ({ db, caller, requestId }, row) =>
      reply(202, await cancelBatch(db, toAuditActor(caller, requestId), row)),
    ),
    route(schema.resumeBatch, readPathBatch, async ({ db, caller, body, requestId }, row) =>
      reply(202, await resumeBatch(db, toAuditActor(caller, requestId), row, body)),
    ),
  ]
}

const watchRoutes = (): Route[] => [
  route(schema.listBatches, readPathRepository, async ({ db, query }, { key }) =>
    reply(200, await listBatches(db, key, query)),
  ),
  route(schema.readBatch, readPathBatch, async ({ db }, row) => reply(200, await readRun(db, row.id))),
  route(schema.followBatch, readPathBatch, async ({ db, signal }, row) => replyEvents(batchEvents(db, row.id, signal))),
]

const taskRoutes = (deps: BatchRoutesDeps): Route[] => [
  route(schema.listBatchTasks, readPathBatch, async ({ db }, row) =>
    reply(200, { tasks: await listTasks(db, row.id) }),
  ),
  route(schema.readBatchTask, readPathTask, async ({ db }, row) => reply(200, await readTaskDetail(db, row))),
  route(schema.readBatchTaskFile, readPathTask, async ({ params }, row) => {
    const { path, bytes, content, sha256 } = await openTaskFile(deps, row, params.path)
    const name = path.split('/').at(-1) ?? path
    return replyFile({ name, mediaType: 'application/octet-stream', bytes, content, etag: toEtag({ sha256 }) })
  }),
  route(
    schema.putBatchTaskFile,
    async (context) => {
      const row = await readPathTask(context)
      return { row, file: readFileFacts(row, context.params.path) }
    },
    async ({ db, caller, params, body, ifMatch, requestId }, { row, file }) => {
      requireMatch(ifMatch, toEtag(file))
      const { path } = params
      const changed = await editFile({ ...deps, db }, toAuditActor(caller, requestId), row, {
        path,
        content: body.content,
      })
      return reply(202, await readTaskDetail(db, changed), { etag: toEtag(readFileFacts(changed, path)) })
    },
  ),
  route(schema.readBatchTaskArchive, readPathTask, async (_, row) => {
    const { bytes, content } = await openTaskArchive(deps, row)
    return replyFile({ name: `${row.id}.tar.gz`, mediaType: 'application/gzip', bytes, content })
  }),
]

const decisionRoutes = (): Route[] => [
  route(schema.decideTask, readPathTask, async ({ db, caller, body, requestId }, row) => {
    const [task] = await decide(db, toAuditActor(caller, requestId), row.batch, [{ taskId: row.id, ...body }], 'single')
    if (!task) throw new Error('The decision returned no task.')
    return reply(200, task)
  }),
  route(schema.decideTasks, readPathBatch, async ({ db, caller, body, requestId }, row) =>
    reply(200, { tasks: await decide(db, toAuditActor(caller, requestId), row.id, body.decisions, 'bulk') }),
  ),
]

/** Requires that the client has read the current version: 428 without If-Match, 412 for another ETag. `*` matches any. */
function requireMatch(ifMatch: string | undefined, etag: string): void {
  if (ifMatch === undefined) throw new Problem(preconditionRequired, `Send If-Match: ${etag} to change this version.`)
  const tags = ifMatch.split(',').map((tag) => tag.trim())
  if (!tags.includes('*') && !tags.includes(etag)) throw new Problem(preconditionFailed, `The current ETag is ${etag}.`)
}
