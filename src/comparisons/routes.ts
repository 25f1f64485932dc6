import { listApprovedTasks } from '../batches/approved-tasks.ts'
import { readBenchmark } from '../benchmarks/benchmarks.ts'
import { readCatalog } from '../catalog/catalog.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { reply, replyEvents, replyFile } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { readRepository } from '../repos/repos.ts'
import { by } from '../workspaces/audit.ts'
import {
  createComparison,
  listComparisons,
  quoteComparison,
  readNow,
  readRow,
  readStatus,
  requireScope,
  type Scope,
} from './comparisons.ts'
import type { ComparisonEvents } from './events.ts'
import { namesForTrial, namesOf } from './names.ts'
import { cancelComparison, resumeComparison } from './resume.ts'
import { benchmarkNotAdded, type ComparisonEndpoints, inBenchmark, inRepository } from './schema.ts'
import { readSource, type ScopeTools } from './source.ts'
import { readArtifact } from './trials/artifacts.ts'
import { listTrialCalls } from './trials/calls.ts'
import { findArtifact, listTrials, readMatrix, readTrial, readTrialRow, voidTrial } from './trials/trials.ts'

export type ComparisonTools = ScopeTools & { blobs: Blobs; events: ComparisonEvents }

type Params = Record<string, string>
type Asked = { db: Db; caller: KeyCaller; params: Params }
/** What an address is about; 404 where there is no such thing. */
type FindScope = (asked: Asked) => Promise<Scope>

export const comparisonRoutes = (tools: ComparisonTools): Route[] => [
  ...benchmarkRoutes(tools),
  ...routesIn(tools, inBenchmark, findBenchmark),
  ...repositoryRoutes(tools),
  ...routesIn(tools, inRepository, findRepository),
]

const findBenchmark: FindScope = async ({ params: { datasetOrg = '', dataset = '' } }) => ({
  ...{ kind: 'benchmark', owner: datasetOrg, name: dataset, repository: null },
})

const findAddedBenchmark: FindScope = async (asked) => {
  const scope = await findBenchmark(asked)
  await readSource(asked.db, asked.caller.workspace.id, scope)
  return scope
}

const findRepository: FindScope = async ({ db, caller, params: { owner = '', name = '' } }) => {
  const row = await readRepository(db, { workspaceId: caller.workspace.id, owner, name })
  return { kind: 'repository', owner: row.owner, name: row.name, repository: row.key }
}

/** What is asked for in another way than in the other scope. */
const benchmarkRoutes = (tools: ComparisonTools): Route[] => [
  route(inBenchmark.create, async ({ db, caller, params, body, requestId }) => {
    const named = { kind: 'benchmark', owner: params.datasetOrg, name: params.dataset } as const
    return reply(202, await createComparison({ ...tools, db }, by(caller, requestId), named, body))
  }),
  route(inBenchmark.quote, findAddedBenchmark, async ({ db, caller, body }, scope) =>
    reply(200, await quoteComparison(db, caller.workspace.id, scope, body)),
  ),
  route(inBenchmark.options, async ({ db, caller, params: { datasetOrg, dataset } }) => {
    const place = { workspaceId: caller.workspace.id, datasetOrg, dataset }
    const { taskList } = await readBenchmark(db, place).catch(notAdded)
    return reply(200, { tasks: taskList })
  }),
]

function notAdded(error: unknown): never {
  throw error instanceof Problem && error.kind === notFound ? new Problem(benchmarkNotAdded, error.message) : error
}

const repositoryRoutes = (tools: ComparisonTools): Route[] => [
  route(inRepository.create, async ({ db, caller, params: { owner, name }, body, requestId }) => {
    const named = { kind: 'repository', owner, name } as const
    return reply(202, await createComparison({ ...tools, db }, by(caller, requestId), named, body))
  }),
  route(inRepository.quote, findRepository, async ({ db, caller, body }, scope) =>
    reply(200, await quoteComparison(db, caller.workspace.id, scope, body)),
  ),
  route(inRepository.options, findRepository, async ({ db }, { repository }) => {
    const tasks = repository === null ? [] : await listApprovedTasks(db, repository)
    return reply(200, { tasks: tasks.map(({ archive: _, ...task }) => task) })
  }),
]

/** The same in every scope. */
const routesIn = (tools: ComparisonTools, endpoints: ComparisonEndpoints, findScope: FindScope): Route[] => [
  ...startRoutes(tools, endpoints, findScope),
  ...choiceRoutes(tools, endpoints, findScope),
  ...watchRoutes(tools, endpoints, findScope),
  ...trialRoutes(tools, endpoints, findScope),
]

type Found = Asked & { params: { comparisonId: string } }

const findIn = (findScope: FindScope) => async (found: Found) =>
  readRow(found.db, found.caller.workspace.id, await findScope(found), found.params.comparisonId)

function startRoutes(tools: ComparisonTools, endpoints: ComparisonEndpoints, findScope: FindScope): Route[] {
  const find = findIn(findScope)
  const resuming = (endpoint: ComparisonEndpoints['resume'] | ComparisonEndpoints['resumeShort']) =>
    route(endpoint, find, async ({ db, caller, body, requestId }, row) => {
      await resumeComparison({ ...tools, db }, by(caller, requestId), row, body)
      return reply(202, await readNow(db, row))
    })
  return [
    resuming(endpoints.resume),
    resuming(endpoints.resumeShort),
    route(endpoints.cancel, find, async ({ db, caller, requestId }, row) => {
      await cancelComparison(db, by(caller, requestId), row.key)
      return reply(202, await readNow(db, row))
    }),
  ]
}

function choiceRoutes(tools: ComparisonTools, endpoints: ComparisonEndpoints, findScope: FindScope): Route[] {
  const inScope = async (asked: Asked): Promise<Scope> => {
    const scope = await findScope(asked)
    await requireScope(asked.db, asked.caller.workspace.id, scope)
    return scope
  }
  return [
    route(endpoints.list, inScope, async ({ db, caller, query }, scope) =>
      reply(200, await listComparisons(db, caller.workspace.id, scope, query)),
    ),
    route(endpoints.catalog, inScope, async ({ db, caller }) =>
      reply(200, await readCatalog({ ...tools, db }, caller.workspace)),
    ),
  ]
}

function watchRoutes({ events }: ComparisonTools, endpoints: ComparisonEndpoints, findScope: FindScope): Route[] {
  const find = findIn(findScope)
  return [
    route(endpoints.read, find, async ({ db }, row) => reply(200, await readStatus(db, row))),
    route(endpoints.matrix, find, async ({ db }, row) => reply(200, await readMatrix(db, await namesOf(db, row)))),
    route(endpoints.events, find, async ({ lastEventId, signal }, row) =>
      replyEvents(events.follow(row.key, lastEventId, signal)),
    ),
  ]
}

function trialRoutes({ blobs }: ComparisonTools, endpoints: ComparisonEndpoints, findScope: FindScope): Route[] {
  const find = async (found: Found) => namesOf(found.db, await findIn(findScope)(found))
  const findTrial = async (found: Found & { params: { trialId: string } }) => {
    const names = await find(found)
    return { names, row: await readTrialRow(found.db, names, found.params.trialId) }
  }
  // The id in `reusedFrom` is read at the same address as the trials of the comparison.
  const findReadable = async (found: Found & { params: { trialId: string } }) => {
    const names = await namesForTrial(found.db, await find(found), found.params.trialId)
    return { names, row: await readTrialRow(found.db, names, found.params.trialId) }
  }
  return [
    route(endpoints.trials, find, async ({ db, query }, names) => reply(200, await listTrials(db, names, query))),
    route(endpoints.trial, findReadable, async ({ db }, { names, row }) => reply(200, await readTrial(db, names, row))),
    route(endpoints.calls, findReadable, async ({ db, caller, query }, { row }) =>
      reply(200, await listTrialCalls(db, caller.workspace.id, row, query)),
    ),
    route(endpoints.artifact, findReadable, async ({ params }, { row }) => {
      const { blob, artifact } = findArtifact(row, params.artifact)
      return replyFile({ ...artifact, content: readArtifact(blobs, blob, artifact) })
    }),
    route(endpoints.void, findTrial, async ({ db, caller, params, body, requestId }, { names }) => {
      const wish = { id: params.trialId, reason: body.reason }
      return reply(200, await voidTrial(db, names, by(caller, requestId), wish))
    }),
  ]
}
