import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { type Endpoint, replyCached, replyFile } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import type { ServerDeps } from '../platform/http/server.ts'
import type { Release } from '../releases/shapes/schema.ts'
import {
  CACHE_HEADERS,
  type CachedRead,
  chooseEncoding,
  describeRead,
  type EncodingRequest,
  type ResultsCache,
} from './cache.ts'
import { drawBadge, drawChart } from './drawings.ts'
import {
  openTaskArchive,
  type RepositoryName,
  renderCards,
  renderDrawing,
  renderFeed,
  renderHistory,
  renderLines,
  renderRelease,
  renderTasks,
  toNameKey,
} from './results.ts'
import * as schema from './schema.ts'
import { toCsv } from './text.ts'

type ResultDeps = { blobs: Blobs; cache: ResultsCache; publicUrl: () => string }

/** Prevents scripts and embedding when an SVG or CSV is opened directly. */
const SANDBOX_POLICY = { 'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; sandbox" }

export const resultRoutes = (deps: ResultDeps): Route[] => [
  ...listRoutes(deps),
  ...repositoryRoutes(deps),
  ...drawingRoutes(deps),
  ...taskRoutes(deps),
]

type ResultSource = { key: unknown[]; repository?: RepositoryName; render: () => Promise<string> }

/** Replies from the cache or renders the answer, in the best encoding that the client accepts. */
async function answerFromCache(
  { cache }: ResultDeps,
  endpoint: Endpoint,
  request: EncodingRequest,
  source: ResultSource,
) {
  const name = source.repository && toNameKey(source.repository)
  const read = CACHED_READS.get(endpoint.id) ?? describeResultRead(endpoint)
  const answer = await cache.answer(read, request, { key: JSON.stringify(source.key), name, render: source.render })
  return replyCached(answer.cached, answer.headers)
}

const describeResultRead = (endpoint: Endpoint): CachedRead<Endpoint> =>
  describeRead(endpoint, { ...CACHE_HEADERS, ...(endpoint.media === undefined ? {} : SANDBOX_POLICY) })

const CACHED_READS = new Map<string, CachedRead<Endpoint>>(
  Object.values(schema).flatMap((each) => ('path' in each ? [[each.id, describeResultRead(each)]] : [])),
)

/** Creates the lookup that answers repeated requests from the cache before routing, for results and the given other reads. */
export function createCachedAnswers(
  cache: ResultsCache,
  others: readonly CachedRead<Endpoint>[],
): ServerDeps['findCached'] {
  const reads = new Map([...CACHED_READS, ...others.map((read) => [read.endpoint.id, read] as const)])
  return (target, acceptEncoding) => {
    const cachedBody = cache.find(target, chooseEncoding(acceptEncoding))
    const read = cachedBody && reads.get(cachedBody.operation)
    if (!read) return undefined
    const { body, etag, encoding } = cachedBody.encoded
    return { endpoint: read.endpoint, cached: { body, etag, type: read.type }, headers: read.headers[encoding] }
  }
}

const listRoutes = (deps: ResultDeps): Route[] => [
  route(schema.listResults, (call) => {
    const { limit, cursor, q } = call.query
    const render = () => renderCards(call.db, call.query)
    return answerFromCache(deps, schema.listResults, call, { key: ['list', limit, cursor, q], render })
  }),
  route(schema.readFeed, (call) => {
    const render = () => renderFeed(call.db, deps.publicUrl())
    return answerFromCache(deps, schema.readFeed, call, { key: ['feed'], render })
  }),
]

const repositoryRoutes = (deps: ResultDeps): Route[] => [
  route(schema.readResults, (call) =>
    answerFromCache(deps, schema.readResults, call, {
      key: ['lines', toNameKey(call.params)],
      repository: call.params,
      render: () => renderLines(call.db, call.params),
    }),
  ),
  route(schema.readHistory, (call) =>
    answerFromCache(deps, schema.readHistory, call, {
      key: ['history', toNameKey(call.params), call.query],
      repository: call.params,
      render: () => renderHistory(call.db, call.params, call.query),
    }),
  ),
  route(schema.readPublicRelease, (call) =>
    answerFromCache(deps, schema.readPublicRelease, call, {
      key: ['release', toNameKey(call.params), call.params.releaseId.toLowerCase()],
      repository: call.params,
      render: () => renderRelease(call.db, call.params, call.params.releaseId),
    }),
  ),
]

type DrawingRequest = { query: { publisher?: string | undefined }; params: RepositoryName; db: Db } & EncodingRequest

const drawingRoutes = (deps: ResultDeps): Route[] => {
  const draw = (endpoint: Endpoint, call: DrawingRequest, paint: (release: Release) => string) => {
    const { publisher } = call.query
    return answerFromCache(deps, endpoint, call, {
      key: ['drawn', endpoint.id, toNameKey(call.params), publisher?.toLowerCase()],
      repository: call.params,
      render: () => renderDrawing(call.db, call.params, publisher, paint),
    })
  }
  return [
    route(schema.readResultsCsv, (call) => draw(schema.readResultsCsv, call, toCsv)),
    route(schema.readBadge, (call) => draw(schema.readBadge, call, drawBadge)),
    route(schema.readChart, (call) => draw(schema.readChart, call, drawChart)),
  ]
}

const taskRoutes = (deps: ResultDeps): Route[] => [
  route(schema.listPublicTasks, (call) =>
    answerFromCache(deps, schema.listPublicTasks, call, {
      key: ['tasks', toNameKey(call.params), call.query.publisher?.toLowerCase()],
      repository: call.params,
      render: () => renderTasks(call.db, call.params, call.query.publisher),
    }),
  ),
  route(schema.readPublicTaskArchive, async ({ db, params, query }) => {
    const selection = { publisher: query.publisher, taskId: params.taskId }
    const archive = await openTaskArchive({ db, blobs: deps.blobs }, params, selection)
    const cacheControl = CACHE_HEADERS['cache-control']
    return replyFile({ name: `${params.taskId}.tar.gz`, mediaType: 'application/gzip', cacheControl, ...archive })
  }),
]
