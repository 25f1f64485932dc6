import { readBenchmark } from '../benchmarks/benchmarks.ts'
import { readCatalog } from '../catalog/catalog.ts'
import type { Tools as CredentialTools } from '../credentials/credentials.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { reply, replyEvents, replyFile } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { by } from '../workspaces/audit.ts'
import {
  createComparison,
  listComparisons,
  quoteComparison,
  readRow,
  readStatus,
  requireScope,
  type Scope,
} from './comparisons.ts'
import type { ComparisonEvents } from './events.ts'
import { namesOf } from './names.ts'
import { cancelComparison, resumeComparison } from './resume.ts'
import { benchmarkNotAdded, type ComparisonEndpoints, inBenchmark } from './schema.ts'
import { readArtifact } from './trials/artifacts.ts'
import { findArtifact, listTrials, readMatrix, readTrial, readTrialRow, voidTrial } from './trials/trials.ts'

export type ComparisonTools = CredentialTools & { blobs: Blobs; events: ComparisonEvents }

type Params = Record<string, string>
type ScopeOf = (params: Params) => Scope

export const comparisonRoutes = (tools: ComparisonTools): Route[] => [
  ...routesIn(tools, inBenchmark, ({ datasetOrg = '', dataset = '' }) => ({
    ...{ kind: 'benchmark', owner: datasetOrg, name: dataset },
  })),
]

/** The same in every scope; `scopeOf` reads it from the address. */
const routesIn = (tools: ComparisonTools, endpoints: ComparisonEndpoints, scopeOf: ScopeOf): Route[] => [
  ...startRoutes(tools, endpoints, scopeOf),
  ...choiceRoutes(tools, endpoints, scopeOf),
  ...watchRoutes(tools, endpoints, scopeOf),
  ...trialRoutes(tools, endpoints, scopeOf),
]

type Found = { db: Db; caller: KeyCaller; params: { comparisonId: string } & Params }

const findIn =
  (scopeOf: ScopeOf) =>
  ({ db, caller, params }: Found) =>
    readRow(db, caller.workspace.id, scopeOf(params), params.comparisonId)

function startRoutes(tools: ComparisonTools, endpoints: ComparisonEndpoints, scopeOf: ScopeOf): Route[] {
  const find = findIn(scopeOf)
  const resuming = (endpoint: ComparisonEndpoints['resume'] | ComparisonEndpoints['resumeShort']) =>
    route(endpoint, find, async ({ db, caller, body, requestId }, row) => {
      await resumeComparison({ ...tools, db }, by(caller, requestId), row, body)
      return reply(202, await readStatus(db, await findAgain(db, row)))
    })
  return [
    route(endpoints.create, async ({ db, caller, params, body, requestId }) =>
      reply(202, await createComparison({ ...tools, db }, by(caller, requestId), scopeOf(params), body)),
    ),
    resuming(endpoints.resume),
    resuming(endpoints.resumeShort),
    route(endpoints.cancel, find, async ({ db, caller, requestId }, row) => {
      await cancelComparison(db, by(caller, requestId), row.key)
      return reply(202, await readStatus(db, await findAgain(db, row)))
    }),
  ]
}

const findAgain = (db: Db, row: Awaited<ReturnType<typeof readRow>>) =>
  readRow(db, row.workspace_id, { kind: row.scope_kind, owner: row.scope_owner, name: row.scope_name }, row.id)

function choiceRoutes(tools: ComparisonTools, endpoints: ComparisonEndpoints, scopeOf: ScopeOf): Route[] {
  const inScope = ({ db, caller, params }: { db: Db; caller: KeyCaller; params: Params }) =>
    requireScope(db, caller.workspace.id, scopeOf(params))
  return [
    route(endpoints.quote, async ({ db, caller, params, body }) =>
      reply(200, await quoteComparison(db, caller.workspace.id, scopeOf(params), body)),
    ),
    route(endpoints.list, inScope, async ({ db, caller, params, query }) =>
      reply(200, await listComparisons(db, caller.workspace.id, scopeOf(params), query)),
    ),
    route(endpoints.options, async ({ db, caller, params }) => {
      const { owner, name } = scopeOf(params)
      const place = { workspaceId: caller.workspace.id, datasetOrg: owner, dataset: name }
      const { taskList } = await readBenchmark(db, place).catch(notAdded)
      return reply(200, { tasks: taskList })
    }),
    route(endpoints.catalog, inScope, async ({ db, caller }) =>
      reply(200, await readCatalog({ ...tools, db }, caller.workspace)),
    ),
  ]
}

function notAdded(error: unknown): never {
  throw error instanceof Problem && error.kind === notFound ? new Problem(benchmarkNotAdded, error.message) : error
}

function watchRoutes({ events }: ComparisonTools, endpoints: ComparisonEndpoints, scopeOf: ScopeOf): Route[] {
  const find = findIn(scopeOf)
  return [
    route(endpoints.read, find, async ({ db }, row) => reply(200, await readStatus(db, row))),
    route(endpoints.matrix, find, async ({ db }, row) => reply(200, await readMatrix(db, await namesOf(db, row)))),
    route(endpoints.events, find, async ({ lastEventId, signal }, row) =>
      replyEvents(events.follow(row.key, lastEventId, signal)),
    ),
  ]
}

function trialRoutes({ blobs }: ComparisonTools, endpoints: ComparisonEndpoints, scopeOf: ScopeOf): Route[] {
  const find = async (found: Found) => namesOf(found.db, await findIn(scopeOf)(found))
  return [
    route(endpoints.trials, find, async ({ db, query }, names) => reply(200, await listTrials(db, names, query))),
    route(endpoints.trial, find, async ({ db, params }, names) =>
      reply(200, await readTrial(db, names, params.trialId)),
    ),
    route(endpoints.calls, find, async ({ db, params }, names) => {
      await readTrialRow(db, names, params.trialId)
      return reply(200, { calls: [], nextCursor: null })
    }),
    route(endpoints.artifact, find, async ({ db, params }, names) => {
      const { blob, artifact } = findArtifact(await readTrialRow(db, names, params.trialId), params.artifact)
      return replyFile({ ...artifact, content: readArtifact(blobs, blob, artifact) })
    }),
    route(
      endpoints.void,
      async (found: Found & { params: { trialId: string } }) => {
        const names = await find(found)
        await readTrialRow(found.db, names, found.params.trialId)
        return names
      },
      async ({ db, caller, params, body, requestId }, names) => {
        const wish = { id: params.trialId, reason: body.reason }
        return reply(200, await voidTrial(db, names, by(caller, requestId), wish))
      },
    ),
  ]
}
