import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import type { Db } from '../db/db.ts'
import { newId } from '../ids.ts'
import type { Log } from '../log.ts'
import { newTraceId, parseTraceParent, type Tracer, traceRequest } from '../tracing.ts'
import {
  admit,
  admitPublic,
  createFairShares,
  type RequestLimiters,
  readPresentedSecrets,
  type TakeOpenSlot,
  watchCallers,
} from './admit.ts'
import { type Authenticate, type Caller, toScope } from './caller.ts'
import { toRateLimitAddress } from './client-address.ts'
import { type CachedResponse, type Endpoint, getPathParameter, isCatchAll, listPathParameters } from './endpoint.ts'
import { type HttpAnswer, runOnce, runOnceAcrossTransactions } from './idempotency.ts'
import { type JsonBodyOptions, readJson, readQuery, receiveUpload, validate } from './input.ts'
import { type CountStream, createRateLimiter, createStreamLimiter, limitSignIn, type RateLimit } from './rate-limit.ts'
import {
  type AnswerUnrouted,
  createEventStream,
  createUnroutedAnswerer,
  streamProgressEvents,
  toProblemAnswer,
  toWireResponse,
  type WireResponse,
} from './respond.ts'
import type { Route, UncheckedCall } from './route.ts'

type Env = { Bindings: HttpBindings }
/** The routes, and the listener that answers from the cache or else calls them. */
export type Http = Hono<Env> & { handle: RequestListener }

/** A cached response of a public read. */
type CachedAnswer = { endpoint: Endpoint; cached: CachedResponse; headers: Record<string, string> }

export type ServerDeps = {
  db: Db
  log: Log
  authenticate: Authenticate
  baseUrl: () => string
  /** Limit per key, or per address for requests without one. Undefined: no limit. */
  limit?: RateLimit | undefined
  signInLimit: RateLimit
  /** Number of requests of one workspace, or of one address without a key, that are worked on at once. */
  requestsAtOnce: number
  /** Maximum time for a JSON body to arrive, and for an upload to pause. */
  bodyTimeoutMs: number
  /** Reads the client's address, which behind a trusted proxy is not the address of the connection. */
  clientAddress: (incoming: IncomingMessage) => string
  /** Folder of uploads in progress. */
  uploadsFolder: string
  observe: (operation: string, status: number, seconds: number) => void
  tracer: Tracer
  /** Finds the current cached response for a public read of exactly this path and query. */
  findCached: (target: string, acceptEncoding: string | undefined) => CachedAnswer | undefined
  /** Renders a problem as a page, for browsers that open a path outside the API. */
  renderProblem: (problem: ProblemDocument) => { text: string; headers: Record<string, string> }
}

/** Members of a problem document that a page shows. */
type ProblemDocument = {
  status: number
  title: string
  detail: string
  code: string
  requestId: string
} & Record<string, unknown>

/** Creates the HTTP server for these routes. Every error becomes a problem response. */
export function createHttp(deps: ServerDeps, routes: Route[]): Http {
  const app = new Hono<Env>()
  const limits = { all: deps.limit && createRateLimiter(deps.limit), signIn: createRateLimiter(deps.signInLimit) }
  // The log line of a request contains no secrets, and searching it for them would cost more than writing it.
  const service = { ...deps, requestLog: deps.log.child({}, { redact: { paths: [] } }) }
  const streams = { watchCaller: watchCallers(deps.authenticate), countStream: createStreamLimiter() }
  const takeOpenSlot = createFairShares(deps.requestsAtOnce)
  const answerUnrouted = createUnroutedAnswerer(routes.map(({ endpoint }) => endpoint))
  for (const route of routes) {
    const { method, path } = route.endpoint
    const handler = createHandler({ ...deps, ...streams, takeOpenSlot, answerUnrouted }, limits, route)
    app.on(method, toHonoPath(path), (c) => respond(service, c, route.endpoint, handler))
  }
  app.notFound((c) => respond(service, c, toUnroutedOperation(c.req.path), async () => answerUnrouted(c.req)))
  const answerFromCache = createCacheAnswerer(service, limits)
  const route = getRequestListener(app.fetch)
  const handle: RequestListener = (incoming, outgoing) => {
    if (!answerFromCache(incoming, outgoing)) void route(incoming, outgoing)
  }
  return Object.assign(app, { handle })
}

const toHonoPath = (path: string): string =>
  path.replaceAll(/\{([^}]+)\}/g, (_, name) => (isCatchAll(name) ? `:${name}{.+}` : `:${name}`))

/** Describes a request that matches no endpoint. Pages of every origin may read the problems of unknown public paths. */
const toUnroutedOperation = (path: string): OperationInfo => ({
  id: 'unknown',
  crossOrigin: path.startsWith('/api/public/') || undefined,
})

type HttpService = ServerDeps & { requestLog: Log }
type OperationInfo = { id: string; crossOrigin?: true | undefined }
type RequestHandler = (c: Context<Env>, requestId: string) => Promise<HttpAnswer>

async function respond(
  service: HttpService,
  c: Context<Env>,
  operation: OperationInfo,
  handler: RequestHandler,
): Promise<Response> {
  const received = receive(c.env.incoming)
  const answer = await handler(c, received.requestId).catch((error: unknown) =>
    toFailureAnswer(service, received, error),
  )
  const { status, headers, body } = completeRequest(service, received, operation, answer)
  return new Response(body, { status, headers })
}

/** Creates the function that answers public reads from the cache. It returns false if there is no cached response. */
const createCacheAnswerer =
  (service: HttpService, limits: RequestLimiters) =>
  (incoming: IncomingMessage, outgoing: ServerResponse): boolean => {
    const { method, headers: sent } = incoming
    if (method !== 'GET' || 'content-length' in sent || 'transfer-encoding' in sent) return false
    const cached = service.findCached(targetOf(incoming), sent['accept-encoding'])
    if (!cached) return false
    const received = receive(incoming)
    const answer = admitCached(service, limits, received, cached)
    const { status, headers, body } = completeRequest(service, received, cached.endpoint, answer)
    outgoing.writeHead(status, headers).end(body)
    return true
  }

function admitCached(
  service: HttpService,
  limits: RequestLimiters,
  received: ReceivedRequest,
  { endpoint, cached, headers }: CachedAnswer,
): HttpAnswer {
  try {
    const rateLimitHeaders = admitPublic(limits, endpoint, toRateLimitAddress(service.clientAddress(received.incoming)))
    return { status: 200, text: '', headers: { ...headers, ...rateLimitHeaders }, cached }
  } catch (error) {
    return toFailureAnswer(service, received, error)
  }
}

type ReceivedRequest = { incoming: IncomingMessage; requestId: string; traceId: string; started: number }

const receive = (incoming: IncomingMessage): ReceivedRequest => ({
  incoming,
  requestId: toRequestId(incoming.headers['x-request-id']),
  traceId: parseTraceParent(incoming.headers.traceparent)?.traceId ?? newTraceId(),
  started: performance.now(),
})

function toFailureAnswer(
  { log, baseUrl, renderProblem }: HttpService,
  { incoming, requestId }: ReceivedRequest,
  error: unknown,
): HttpAnswer {
  const answer = toProblemAnswer(error, { log, baseUrl: baseUrl(), requestId })
  if (!wantsPage(incoming)) return answer
  const { text, headers } = renderProblem(JSON.parse(answer.text))
  return { ...answer, text, headers: { ...answer.headers, ...headers, vary: 'Accept' } }
}

const wantsPage = (incoming: IncomingMessage): boolean =>
  !targetOf(incoming).startsWith('/api/') && (incoming.headers.accept?.includes('text/html') ?? false)

/** Builds the response, then logs, counts and traces the request. Every request ends here. */
function completeRequest(
  service: HttpService,
  received: ReceivedRequest,
  { id: operation, crossOrigin }: OperationInfo,
  answer: HttpAnswer,
): WireResponse {
  const { incoming, requestId, traceId, started } = received
  const wire = toWireResponse(incoming, answer, buildCommonHeaders(requestId, crossOrigin))
  const ms = performance.now() - started
  const { status } = wire
  service.observe(operation, status, ms / 1000)
  service.requestLog.info({ requestId, traceId, operation, status, ms: Math.round(ms * 10) / 10 }, 'request')
  traceRequest(service.tracer, received, { operation, status, ms })
  return wire
}

const buildCommonHeaders = (requestId: string, crossOrigin: true | undefined): Record<string, string> =>
  crossOrigin ? { 'x-request-id': requestId, ...CROSS_ORIGIN } : { 'x-request-id': requestId }
const EXPOSED_HEADERS = 'Allow, Content-Disposition, ETag, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id'
const CROSS_ORIGIN = { 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED_HEADERS }

const toRequestId = (sent: unknown): string =>
  typeof sent === 'string' && /^[\w.-]{1,128}$/.test(sent) ? sent : `${PROCESS_ID}-${(requestCount++).toString(36)}`

/** Prefix of request ids. They are counted per process, because a random id per request costs more than its log line. */
const PROCESS_ID = newId()
let requestCount = 1

type HandlerDeps = ServerDeps & {
  takeOpenSlot: TakeOpenSlot
  watchCaller: ReturnType<typeof watchCallers>
  countStream: CountStream
  answerUnrouted: AnswerUnrouted
}

const toBodyOptions = ({ bodyTimeoutMs }: ServerDeps, { access, bodyOptional }: Endpoint): JsonBodyOptions => ({
  timeoutMs: bodyTimeoutMs,
  isPublic: access === 'public',
  isOptional: bodyOptional === true,
})

/** Creates the handler of a route. Checks in the order of the contract: 401, 429, 404 (workspace), 403, 413, 415, 408, 400, 404, 422, 409. */
const createHandler = (deps: HandlerDeps, limits: RequestLimiters, route: Route): RequestHandler => {
  const { endpoint } = route
  const patterns = listPathParameters(endpoint.path).map((name) => ({ name, pattern: getPathParameter(name).pattern }))
  return async (c, requestId) => {
    const { incoming } = c.env
    const address = toRateLimitAddress(deps.clientAddress(incoming))
    const params: Record<string, string> = c.req.param()
    const { caller, headers } = await admit(deps, limits, endpoint, { request: incoming, params, address })
    limitStreams(deps, endpoint, c, caller)
    const open = await deps.takeOpenSlot(endpoint, c.env.outgoing, { caller, address })
    const json = endpoint.body ? await readJson(c.req.raw, toBodyOptions(deps, endpoint)) : undefined
    await using upload = await receiveUpload(c.req.raw, endpoint.upload, {
      folder: deps.uploadsFolder,
      idleMs: deps.bodyTimeoutMs,
    })

    if (patterns.some(({ name, pattern }) => !pattern.test(params[name] ?? ''))) return deps.answerUnrouted(c.req)
    using _slot = await open.takeWorkSlot()
    const call: UncheckedCall = {
      params,
      query: {},
      body: undefined,
      upload,
      caller,
      db: deps.db,
      requestId,
      target: targetOf(incoming),
      // Headers are read from Node's request, because Hono would copy all of them to read one.
      lastEventId: incoming.headers['last-event-id']?.toString(),
      ifMatch: incoming.headers['if-match'],
      acceptEncoding: incoming.headers['accept-encoding'],
      signal: createSignal(deps, endpoint, c),
      onProgress: () => {},
    }
    const found = await route.find?.(call)

    if (endpoint.query) call.query = validate(endpoint.query, readQuery(c.req.url), '/query')
    if (endpoint.body) call.body = validate(endpoint.body, json)
    const work = limitFailedSignIns(limits, endpoint, { address, body: call.body }, (onProgress) =>
      open.runWork(() => runHandler(route, { ...call, onProgress }, found, incoming.headers['idempotency-key'])),
    )
    const answer = await (wantsEvents(endpoint, incoming)
      ? streamProgress(deps, requestId, work)
      : work(call.onProgress))
    open.countAnswer(BYTES_PER_CHARACTER * answer.text.length)
    return { ...answer, headers: { ...answer.headers, ...headers } }
  }
}

/** Wraps the work of a sign-in in the limit on failed attempts. Returns other work unchanged. */
function limitFailedSignIns(
  limits: RequestLimiters,
  { signIn: secretField }: Endpoint,
  { address, body }: { address: string; body: unknown },
  work: ProgressWork,
): ProgressWork {
  if (secretField === undefined) return work
  const secret = String(Object.entries(body ?? {}).find(([name]) => name === secretField)?.[1] ?? '')
  return (onProgress) => limitSignIn(limits.signIn, { address, secret }, () => work(onProgress))
}

/** Maximum memory of a character in a JavaScript string. */
const BYTES_PER_CHARACTER = 2

const targetOf = ({ url = '' }: IncomingMessage): string => url

type ProgressWork = (onProgress: UncheckedCall['onProgress']) => Promise<HttpAnswer>

const NEVER_ABORTED = new AbortController().signal
/** Prevents proxies from caching or buffering a stream. */
const EVENT_STREAM_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
}

/**
 * Creates the signal of a long request or a stream; that of a stream also aborts when its key becomes invalid. Other
 * requests share a signal that never aborts, because creating one is expensive.
 */
function createSignal({ watchCaller }: HandlerDeps, endpoint: Endpoint, c: Context<Env>): AbortSignal {
  if (endpoint.progress === undefined && endpoint.events === undefined) return NEVER_ABORTED
  const { signal } = c.req.raw
  const { incoming, outgoing } = c.env
  if (endpoint.events === undefined || endpoint.access === 'public' || outgoing.destroyed) return signal
  const subscriber = watchCaller(readPresentedSecrets(incoming.headers))
  outgoing.once('close', subscriber.leave)
  return AbortSignal.any([signal, subscriber.signal])
}

/** Counts event streams per key. The count ends with the response. */
function limitStreams({ countStream }: HandlerDeps, endpoint: Endpoint, c: Context<Env>, caller: Caller | undefined) {
  const { incoming, outgoing } = c.env
  if (endpoint.events === undefined && !wantsEvents(endpoint, incoming)) return
  if (outgoing.destroyed) return
  outgoing.once('close', countStream(caller))
}

const wantsEvents = ({ progress }: Endpoint, { headers }: IncomingMessage): boolean =>
  progress !== undefined && (headers.accept?.includes('text/event-stream') ?? false)

/** Streams progress. The status is sent before the work begins; the last event contains its result. */
function streamProgress({ log, baseUrl }: ServerDeps, requestId: string, work: ProgressWork): HttpAnswer {
  const events = streamProgressEvents(async (onProgress) => {
    try {
      return { event: 'result', data: JSON.parse((await work(onProgress)).text) }
    } catch (error) {
      return { event: 'problem', data: JSON.parse(toProblemAnswer(error, { log, baseUrl: baseUrl(), requestId }).text) }
    }
  })
  return { status: 200, text: '', headers: EVENT_STREAM_HEADERS, stream: createEventStream(events) }
}

function runHandler(route: Route, call: UncheckedCall, found: unknown, key: unknown): Promise<HttpAnswer> {
  const { endpoint } = route
  const work = async (db: Db): Promise<HttpAnswer> => {
    const { status, body, headers = {}, events, bytes, cached } = await route.handle({ ...call, db }, found)
    if (cached) return { status, text: '', headers, cached }
    if (events) return { status, text: '', headers: EVENT_STREAM_HEADERS, stream: createEventStream(events) }
    if (bytes) return { status, text: '', headers, stream: ReadableStream.from(bytes) }
    return { status, text: body === undefined ? '' : JSON.stringify(body), headers }
  }
  if (!endpoint.creates || typeof key !== 'string') return work(call.db)

  const request = [endpoint.id, call.params, call.query, call.body ?? call.upload?.digest]
  const idempotent = {
    scope: toScope(call.caller),
    key,
    request,
    hasSecret: endpoint.showsSecret === true,
    hasUpload: endpoint.upload !== undefined,
  }
  if (endpoint.progress) return runOnceAcrossTransactions(call.db, idempotent, () => work(call.db))
  return runOnce(call.db, idempotent, work)
}
