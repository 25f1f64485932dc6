import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { reply, replyEvents, replyFile } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { type RepositoryTools, readRepository, requireRepository } from '../repos/repos.ts'
import { by } from '../workspaces/audit.ts'
import { cancelBatch, importBatch, listBatches, readBatchRow, readStatus, resumeBatch } from './batches.ts'
import { decide } from './decide.ts'
import { batchEvents } from './events.ts'
import * as schema from './schema.ts'
import { detailOf, listTasks, openTaskArchive, openTaskFile, readTaskRow } from './tasks.ts'

export type BatchTools = RepositoryTools & { blobs: Blobs }

export const batchRoutes = (tools: BatchTools): Route[] => [
  ...startRoutes(tools),
  ...watchRoutes(),
  ...taskRoutes(tools),
  ...decisionRoutes(),
]

type Found<P> = { db: Db; caller: KeyCaller; params: P }
type InRepository = { owner: string; name: string }
type InBatch = InRepository & { runId: string }

const placeOf = ({ caller, params }: Omit<Found<InRepository>, 'db'>) => ({
  ...{ workspaceId: caller.workspace.id, owner: params.owner, name: params.name },
})

const findBatch = ({ db, caller, params }: Found<InBatch>) =>
  readBatchRow(db, placeOf({ caller, params }), params.runId)

const findTask = async (found: Found<InBatch & { taskId: string }>) => {
  const { id } = await findBatch(found)
  return readTaskRow(found.db, id, found.params.taskId)
}

function startRoutes(tools: BatchTools): Route[] {
  return [
    route(
      schema.importBatch,
      ({ caller, params }) => requireRepository(tools, by(caller), placeOf({ caller, params })),
      async ({ db, caller, upload, requestId }, { key }) =>
        reply(202, await importBatch(tools, by(caller, requestId), { repository: key, path: upload.path, db })),
    ),
    route(schema.cancelBatch, findBatch, async ({ db, caller, requestId }, row) =>
      reply(202, await cancelBatch(db, by(caller, requestId), row)),
    ),
    route(schema.resumeBatch, findBatch, async ({ db, caller, requestId }, row) =>
      reply(202, await resumeBatch(db, by(caller, requestId), row)),
    ),
  ]
}

const watchRoutes = (): Route[] => [
  route(
    schema.listBatches,
    ({ db, caller, params }) => readRepository(db, placeOf({ caller, params })),
    async ({ db, query }, { key }) => reply(200, await listBatches(db, key, query)),
  ),
  route(schema.readBatch, findBatch, async ({ db }, row) => reply(200, await readStatus(db, row))),
  route(schema.followBatch, findBatch, async ({ db, signal }, row) => replyEvents(batchEvents(db, row.id, signal))),
]

const taskRoutes = (tools: BatchTools): Route[] => [
  route(schema.listBatchTasks, findBatch, async ({ db }, row) => reply(200, { tasks: await listTasks(db, row.id) })),
  route(schema.readBatchTask, findTask, async (_, row) => reply(200, detailOf(row))),
  route(schema.readBatchTaskFile, findTask, async ({ params }, row) => {
    const { path, bytes, content } = await openTaskFile(tools, row, params.path)
    const name = path.split('/').at(-1) ?? path
    return replyFile({ name, mediaType: 'application/octet-stream', bytes, content })
  }),
  route(schema.readBatchTaskArchive, findTask, async (_, row) => {
    const { bytes, content } = await openTaskArchive(tools, row)
    return replyFile({ name: `${row.id}.tar.gz`, mediaType: 'application/gzip', bytes, content })
  }),
]

const decisionRoutes = (): Route[] => [
  route(schema.decideTask, findTask, async ({ db, caller, body, requestId }, row) => {
    const [task] = await decide(db, by(caller, requestId), row.batch, [{ taskId: row.id, ...body }])
    if (!task) throw new Error('A decision was made about nothing.')
    return reply(200, task)
  }),
  route(schema.decideTasks, findBatch, async ({ db, caller, body, requestId }, row) =>
    reply(200, { tasks: await decide(db, by(caller, requestId), row.id, body.decisions) }),
  ),
]
