import { listApprovedTasks } from '../batches/tasks.ts'
import { readBenchmark } from '../benchmarks/benchmarks.ts'
import { readCatalog } from '../catalog/catalog.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { reply, replyEvents, replyFile } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { readRepository } from '../repos/repos.ts'
import { toAuditActor } from '../workspaces/audit.ts'
import {
  createComparison,
  listComparisons,
  readComparisonOfTrial,
  readComparisonRow,
  readStatusWithStatistics,
  reloadStatus,
  requireScope,
} from './comparisons.ts'
import { readSpend } from './costs/schema.ts'
import type { ComparisonEvents } from './events.ts'
import { cancelComparison, pauseOnRequest, resumeComparison } from './lifecycle.ts'
import { quoteComparison } from './quote-comparison.ts'
import {
  benchmarkNotAdded,
  type ComparisonEndpoints,
  inBenchmark,
  inRepository,
  listWorkspaceComparisons,
  readTrialById,
} from './schema.ts'
import { readSource, type ScopeDeps } from './source.ts'
import type { ComparisonScope } from './sql.ts'
import { diffComparisons } from './statistics/diff.ts'
import { listPairs, readPair } from './statistics/pairs.ts'
import type { StatisticsCache } from './statistics/statistics.ts'
import { readArtifact } from './trials/artifacts.ts'
import { listFailures } from './trials/failures/failures.ts'
import { listTrialCalls, readWorkspaceSpend } from './trials/spend.ts'
import {
  listTrials,
  loadAxesForTrial,
  loadComparisonAxes,
  readMatrix,
  readTrial,
  readTrialRow,
  requireArtifact,
  toNeighbours,
  voidTrial,
} from './trials/trials.ts'

type ComparisonDeps = ScopeDeps & { blobs: Blobs; events: ComparisonEvents; statistics: StatisticsCache }

type ScopeRequest = { db: Db; caller: KeyCaller; params: Record<string, string> }
/** Resolves the scope that a path names. Throws not found. */
type ResolveScope = (request: ScopeRequest) => Promise<ComparisonScope>

export const comparisonRoutes = (deps: ComparisonDeps): Route[] => [
  ...benchmarkRoutes(deps),
  ...scopeRoutes(deps, inBenchmark, resolveBenchmark),
  ...repositoryRoutes(deps),
  ...scopeRoutes(deps, inRepository, resolveRepository),
  readTrialByIdRoute,
  route(listWorkspaceComparisons, async ({ db, caller, query }) =>
    reply(200, await listComparisons(db, caller.workspace.id, undefined, query)),
  ),
  route(readSpend, async ({ db, caller, query }) =>
    reply(200, await readWorkspaceSpend(db, caller.workspace.id, query.days)),
  ),
]

const resolveBenchmark: ResolveScope = async ({ params: { datasetOrg = '', dataset = '' } }) => ({
  kind: 'benchmark',
  owner: datasetOrg,
  name: dataset,
  repository: null,
})

const resolveAddedBenchmark: ResolveScope = async (request) => {
  const scope = await resolveBenchmark(request)
  await readSource(request.db, request.caller.workspace.id, scope)
  return scope
}

const resolveRepository: ResolveScope = async ({ db, caller, params: { owner = '', name = '' } }) => {
  const row = await readRepository(db, { workspaceId: caller.workspace.id, owner, name })
  return { kind: 'repository', owner: row.owner, name: row.name, repository: row.key }
}

const readTrialByIdRoute = route(
  readTrialById,
  async ({ db, caller, params: { trialId } }) => {
    const comparison = await readComparisonOfTrial(db, caller.workspace.id, trialId)
    const axes = await loadComparisonAxes(db, comparison.row)
    return { ...comparison, axes, trial: await readTrialRow(db, axes, trialId) }
  },
  async ({ db }, { row, scope, axes, trial }) =>
    reply(200, {
      ...(await readTrial(db, axes, trial)),
      comparison: { id: row.id, scope },
      ...toNeighbours(axes, trial),
    }),
)

/** Routes of benchmarks whose request bodies or answers differ from those of repositories. */
const benchmarkRoutes = (deps: ComparisonDeps): Route[] => [
  route(inBenchmark.create, async ({ db, caller, params, body, requestId }) => {
    const scope = { kind: 'benchmark', owner: params.datasetOrg, name: params.dataset } as const
    return reply(202, await createComparison({ ...deps, db }, toAuditActor(caller, requestId), scope, body))
  }),
  route(inBenchmark.quote, resolveAddedBenchmark, async ({ db, caller, body }, scope) =>
    reply(200, await quoteComparison({ db, blobs: deps.blobs }, caller.workspace.id, scope, body)),
  ),
  route(inBenchmark.options, async ({ db, caller, params: { datasetOrg, dataset } }) => {
    const ref = { workspaceId: caller.workspace.id, datasetOrg, dataset }
    const { taskList } = await readBenchmark(db, ref).catch(throwNotAdded)
    return reply(200, { tasks: taskList })
  }),
]

function throwNotAdded(error: unknown): never {
  throw error instanceof Problem && error.kind === notFound ? new Problem(benchmarkNotAdded, error.message) : error
}

const repositoryRoutes = (deps: ComparisonDeps): Route[] => [
  route(inRepository.create, async ({ db, caller, params: { owner, name }, body, requestId }) => {
    const scope = { kind: 'repository', owner, name } as const
    return reply(202, await createComparison({ ...deps, db }, toAuditActor(caller, requestId), scope, body))
  }),
  route(inRepository.quote, resolveRepository, async ({ db, caller, body }, scope) =>
    reply(200, await quoteComparison({ db, blobs: deps.blobs }, caller.workspace.id, scope, body)),
  ),
  route(inRepository.options, resolveRepository, async ({ db }, { repository }) => {
    const tasks = repository === null ? [] : await listApprovedTasks(db, repository)
    return reply(200, { tasks: tasks.map(({ archive: _, ...task }) => task) })
  }),
]

/** Routes that are the same for benchmarks and repositories. */
const scopeRoutes = (deps: ComparisonDeps, endpoints: ComparisonEndpoints, resolveScope: ResolveScope): Route[] => [
  ...lifecycleRoutes(deps, endpoints, resolveScope),
  ...listRoutes(deps, endpoints, resolveScope),
  ...statusRoutes(deps, endpoints, resolveScope),
  ...trialRoutes(deps, endpoints, resolveScope),
]

type ComparisonRequest = ScopeRequest & { params: { comparisonId: string } }

/** Returns a function that finds the comparison of a request. Throws not found. */
const findComparisonIn = (resolveScope: ResolveScope) => async (request: ComparisonRequest) =>
  readComparisonRow(request.db, request.caller.workspace.id, await resolveScope(request), request.params.comparisonId)

function lifecycleRoutes(deps: ComparisonDeps, endpoints: ComparisonEndpoints, resolveScope: ResolveScope): Route[] {
  const find = findComparisonIn(resolveScope)
  const resumeRoute = (endpoint: ComparisonEndpoints['resume'] | ComparisonEndpoints['resumeShort']) =>
    route(endpoint, find, async ({ db, caller, body, requestId }, row) => {
      await resumeComparison({ ...deps, db }, toAuditActor(caller, requestId), row, body)
      return reply(202, await reloadStatus(db, deps.statistics, row))
    })
  return [
    resumeRoute(endpoints.resume),
    resumeRoute(endpoints.resumeShort),
    route(endpoints.pause, find, async ({ db, caller, requestId }, row) => {
      await pauseOnRequest(db, toAuditActor(caller, requestId), row.key)
      return reply(202, await reloadStatus(db, deps.statistics, row))
    }),
    route(endpoints.cancel, find, async ({ db, caller, requestId }, row) => {
      await cancelComparison(db, toAuditActor(caller, requestId), row.key)
      return reply(202, await reloadStatus(db, deps.statistics, row))
    }),
  ]
}

function listRoutes(deps: ComparisonDeps, endpoints: ComparisonEndpoints, resolveScope: ResolveScope): Route[] {
  const resolveExisting = async (request: ScopeRequest): Promise<ComparisonScope> => {
    const scope = await resolveScope(request)
    await requireScope(request.db, request.caller.workspace.id, scope)
    return scope
  }
  return [
    route(endpoints.list, resolveExisting, async ({ db, caller, query }, scope) =>
      reply(200, await listComparisons(db, caller.workspace.id, scope, query)),
    ),
    route(endpoints.catalog, resolveExisting, async ({ db, caller }) =>
      reply(200, await readCatalog({ ...deps, db }, caller.workspace)),
    ),
  ]
}

function statusRoutes(
  { events, statistics }: ComparisonDeps,
  endpoints: ComparisonEndpoints,
  resolveScope: ResolveScope,
): Route[] {
  const find = findComparisonIn(resolveScope)
  const findBoth = async (request: ComparisonRequest & { params: { baseId: string } }) => {
    const base = { ...request, params: { ...request.params, comparisonId: request.params.baseId } }
    return { current: await find(request), base: await find(base) }
  }
  return [
    route(endpoints.read, find, async ({ db }, row) => reply(200, await readStatusWithStatistics(db, statistics, row))),
    route(endpoints.pairs, find, async ({ db, query }, row) =>
      reply(200, { pairs: await listPairs(db, statistics, row, query.baseline) }),
    ),
    route(endpoints.pair, find, async ({ db, params }, row) => reply(200, await readPair(db, statistics, row, params))),
    route(endpoints.diff, findBoth, async ({ db }, rows) => reply(200, await diffComparisons(db, statistics, rows))),
    route(endpoints.matrix, find, async ({ db }, row) =>
      reply(200, await readMatrix(db, await loadComparisonAxes(db, row))),
    ),
    route(endpoints.failures, find, async ({ db }, row) =>
      reply(200, { groups: await listFailures(db, await loadComparisonAxes(db, row)) }),
    ),
    route(endpoints.events, find, async ({ lastEventId, signal }, row) =>
      replyEvents(events.follow(row.key, lastEventId, signal)),
    ),
  ]
}

function trialRoutes({ blobs }: ComparisonDeps, endpoints: ComparisonEndpoints, resolveScope: ResolveScope): Route[] {
  const find = async (request: ComparisonRequest) =>
    loadComparisonAxes(request.db, await findComparisonIn(resolveScope)(request))
  const findTrial = async (request: ComparisonRequest & { params: { trialId: string } }) => {
    const axes = await find(request)
    return { axes, row: await readTrialRow(request.db, axes, request.params.trialId) }
  }
  // Trials named by `reusedFrom` are readable under the same path as the trials of the comparison.
  const findReadable = async (request: ComparisonRequest & { params: { trialId: string } }) => {
    const axes = await loadAxesForTrial(request.db, await find(request), request.params.trialId)
    return { axes, row: await readTrialRow(request.db, axes, request.params.trialId) }
  }
  return [
    route(endpoints.trials, find, async ({ db, query }, axes) => reply(200, await listTrials(db, axes, query))),
    route(endpoints.trial, findReadable, async ({ db }, { axes, row }) => reply(200, await readTrial(db, axes, row))),
    route(endpoints.calls, findReadable, async ({ db, caller, query }, { row }) =>
      reply(200, await listTrialCalls(db, caller.workspace.id, row, query)),
    ),
    route(endpoints.artifact, findReadable, async ({ params }, { row }) => {
      const { blob, artifact } = requireArtifact(row, params.artifact)
      return replyFile({ ...artifact, content: readArtifact(blobs, blob, artifact) })
    }),
    route(endpoints.void, findTrial, async ({ db, caller, params, body, requestId }, { axes }) => {
      const input = { id: params.trialId, reason: body.reason }
      return reply(200, await voidTrial(db, axes, toAuditActor(caller, requestId), input))
    }),
  ]
}
