import type { KeyCaller } from '../platform/http/caller.ts'
import { reply, replyFile } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import { addBenchmark } from './add.ts'
import {
  type BenchmarkDeps,
  type BenchmarkTaskRef,
  listBenchmarks,
  listTaskFiles,
  openTaskFile,
  readBenchmark,
  readStoredTask,
  removeBenchmark,
} from './benchmarks.ts'
import { startCalibration } from './calibrate.ts'
import * as schema from './schema.ts'

export const benchmarkRoutes = (deps: BenchmarkDeps): Route[] => [
  route(schema.addBenchmark, async ({ caller, body, requestId, signal, onProgress }) => {
    const { kind, benchmark } = await addBenchmark(deps, toAuditActor(caller, requestId), body.reference, {
      signal,
      onProgress,
    })
    const status = kind === 'added' ? 201 : 200
    if (!body.calibrate) return reply(status, benchmark)
    const { datasetOrg, dataset } = benchmark
    return reply(status, await startCalibration(deps.db, { workspaceId: caller.workspace.id, datasetOrg, dataset }))
  }),
  route(schema.listBenchmarks, async ({ db, caller, query }) =>
    reply(200, await listBenchmarks(db, caller.workspace.id, query)),
  ),
  route(schema.readBenchmark, async ({ db, caller, params }) =>
    reply(200, await readBenchmark(db, { workspaceId: caller.workspace.id, ...params })),
  ),
  route(schema.removeBenchmark, async ({ db, caller, params, requestId }) => {
    await removeBenchmark(db, toAuditActor(caller, requestId), params)
    return reply(204)
  }),
  ...taskFileRoutes(deps),
]

function taskFileRoutes(deps: BenchmarkDeps): Route[] {
  type TaskRequest = { caller: KeyCaller; params: Omit<BenchmarkTaskRef, 'workspaceId'> }
  const readRequestedTask = ({ caller, params }: TaskRequest) =>
    readStoredTask(deps, { ...params, workspaceId: caller.workspace.id })
  return [
    route(schema.listBenchmarkTaskFiles, readRequestedTask, async ({ signal }, task) =>
      reply(200, await listTaskFiles(deps, task, signal)),
    ),
    route(schema.readBenchmarkTaskFile, readRequestedTask, async ({ params: { path } }, task) => {
      const name = path.split('/').at(-1) ?? path
      return replyFile({ name, mediaType: 'application/octet-stream', ...(await openTaskFile(deps, task, path)) })
    }),
  ]
}
