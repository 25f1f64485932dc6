import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpBindings } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import type { Db } from '../db/db.ts'
import { newId } from '../ids.ts'
import type { Log } from '../log.ts'
import { admit, admitAnyone, type Limits, presented } from './admit.ts'
import { readJson } from './body.ts'
import type { Authenticate, Caller } from './caller.ts'
import { rateLimitAddress } from './client-address.ts'
import { type Endpoint, isRest, pathParameterNames, pathParameterPattern, type ReadyAnswer } from './endpoint.ts'
import { eventStream, progressEvents } from './event-stream.ts'
import { type Answer, once, onceAcrossTransactions } from './idempotency.ts'
import { type AnswerUnrouted, unroutedAnswerer } from './methods.ts'
import { type Limit, rateLimiter } from './rate-limit.ts'
import { failure, type Wire, wireOf } from './respond.ts'
import type { Route, UncheckedCall } from './route.ts'
import { limitSignIn } from './sign-in-limit.ts'
import { receiveUpload } from './upload.ts'
import { readQuery, validate } from './validate.ts'
import { watchCallers } from './watch-callers.ts'

type Env = { Bindings: HttpBindings }
export type Http = Hono<Env> & {
  /** Answers what was made before, past the router. False: it is for the router. */
  answerAtOnce(incoming: IncomingMessage, outgoing: ServerResponse): boolean
}

/** An answer of a public read that was made before. */
type KeptAnswer = { endpoint: Endpoint; ready: ReadyAnswer; headers: Record<string, string> }

export type ServerTools = {
  db: Db
  log: Log
  authenticate: Authenticate
  baseUrl: () => string
  /** Per key, or per address where there is none. Off when absent. */
  limit?: Limit | undefined
  signInLimit: Limit
  /** Maximum time for a JSON body to arrive, and for an upload to pause. */
  bodyTimeoutMs: number
  /** Reads the address of the client, which behind a trusted proxy is not the address of the connection. */
  clientAddress: (incoming: IncomingMessage) => string
  /** Where files lie that are being sent in. */
  uploadsFolder: string
  observe: (operation: string, status: number, seconds: number) => void
  /** What a public read of this target, word for word, was answered before and would be answered now. */
  findKept: (target: string, acceptEncoding: string | undefined) => KeptAnswer | undefined
}

/** Answers every route of the list, with problems for all that goes wrong. */
export function createHttp(tools: ServerTools, routes: Route[]): Http {
  const app = new Hono<Env>()
  const limits = { all: tools.limit && rateLimiter(tools.limit), signIn: rateLimiter(tools.signInLimit) }
  // Nothing in a request's line can be a secret, and the search for one would cost more than the line.
  const service = { ...tools, lines: tools.log.child({}, { redact: { paths: [] } }) }
  const watchCaller = watchCallers(tools.authenticate)
  const answerUnrouted = unroutedAnswerer(routes.map(({ endpoint }) => endpoint))
  for (const route of routes) {
    const { method, path } = route.endpoint
    const work = answerer({ ...tools, watchCaller, answerUnrouted }, limits, route)
    app.on(method, honoPath(path), (c) => timed(service, c, route.endpoint, work))
  }
  app.notFound((c) => timed(service, c, unrouted(c.req.path), async () => answerUnrouted(c.req)))
  return Object.assign(app, { answerAtOnce: atOnce(service, limits) })
}

const honoPath = (path: string): string =>
  path.replaceAll(/\{([^}]+)\}/g, (_, name) => (isRest(name) ? `:${name}{.+}` : `:${name}`))

/** Pages of every origin may also read what is wrong with an address of the public API. */
const unrouted = (path: string): Named => ({
  id: 'unknown',
  ...(path.startsWith('/api/public/') ? { anywhere: true as const } : {}),
})

type Service = ServerTools & { lines: Log }
type Named = { id: string; anywhere?: true }
type Work = (c: Context<Env>, requestId: string) => Promise<Answer>

async function timed(service: Service, c: Context<Env>, endpoint: Named, work: Work): Promise<Response> {
  const arrival = arrivalOf(c.env.incoming)
  const answer = await work(c, arrival.requestId).catch((error: unknown) => failed(service, arrival, error))
  const { status, headers, body } = ended(service, arrival, endpoint, answer)
  return new Response(body, { status, headers })
}

/** The same for what needs no router: a public read, without a body, of what was made before. */
const atOnce =
  (service: Service, limits: Limits): Http['answerAtOnce'] =>
  (incoming, outgoing) => {
    const { method, headers: sent } = incoming
    if (method !== 'GET' || 'content-length' in sent || 'transfer-encoding' in sent) return false
    const kept = service.findKept(targetOf(incoming), sent['accept-encoding'])
    if (!kept) return false
    const arrival = arrivalOf(incoming)
    const { status, headers, body } = ended(service, arrival, kept.endpoint, keptAnswer(service, limits, arrival, kept))
    outgoing.writeHead(status, headers).end(body)
    return true
  }

function keptAnswer(service: Service, limits: Limits, arrival: Arrival, { endpoint, ready, headers }: KeptAnswer) {
  try {
    const limited = admitAnyone(limits, endpoint, rateLimitAddress(service.clientAddress(arrival.incoming)))
    return { status: 200, text: '', headers: { ...headers, ...limited }, ready }
  } catch (error) {
    return failed(service, arrival, error)
  }
}

type Arrival = { incoming: IncomingMessage; requestId: string; started: number }

const arrivalOf = (incoming: IncomingMessage): Arrival => ({
  ...{ incoming, requestId: requestIdOf(incoming.headers['x-request-id']), started: performance.now() },
})

const failed = ({ log, baseUrl }: Service, { requestId }: Arrival, error: unknown): Answer =>
  failure(error, { log, baseUrl: baseUrl(), requestId })

/** Every request ends here, whatever happened to it: with an id, a line in the log and a count. */
function ended(service: Service, { incoming, requestId, started }: Arrival, endpoint: Named, answer: Answer): Wire {
  const wire = wireOf(incoming, answer, headersOfAll(endpoint, requestId))
  const ms = performance.now() - started
  const operation = endpoint.id
  service.observe(operation, wire.status, ms / 1000)
  service.lines.info({ requestId, operation, status: wire.status, ms: Math.round(ms * 10) / 10 }, 'request')
  return wire
}

const headersOfAll = ({ anywhere }: Named, requestId: string): Record<string, string> =>
  anywhere ? { 'x-request-id': requestId, ...ANYWHERE } : { 'x-request-id': requestId }
const EXPOSED = 'Allow, Content-Disposition, ETag, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id'
const ANYWHERE = { 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED }

const requestIdOf = (sent: unknown): string =>
  typeof sent === 'string' && /^[\w.-]{1,128}$/.test(sent) ? sent : `${PROCESS}-${(requests++).toString(36)}`

/** Each request is counted in its process: to draw an id for it costs more than the rest of its line. */
const PROCESS = newId()
let requests = 1

type Answering = ServerTools & { watchCaller: ReturnType<typeof watchCallers>; answerUnrouted: AnswerUnrouted }

/** The order of checks is the contract's: 401, 429, 404 of the workspace, 403, 413, 415, 408, 400, 404, 422, 409. */
const answerer = (tools: Answering, limits: Limits, route: Route): Work => {
  const { endpoint } = route
  const patterns = pathParameterNames(endpoint.path).map((name) => ({ name, pattern: pathParameterPattern(name) }))
  return async (c, requestId) => {
    const { incoming } = c.env
    const address = rateLimitAddress(tools.clientAddress(incoming))
    const params: Record<string, string> = c.req.param()
    const { caller, headers } = await admit(tools, limits, endpoint, { request: c.env.incoming, params, address })
    const reading = {
      timeoutMs: tools.bodyTimeoutMs,
      isPublic: endpoint.access === 'public',
      isOptional: endpoint.bodyOptional === true,
    }
    const sent = endpoint.body ? await readJson(c.req.raw, reading) : undefined
    const receiving = { folder: tools.uploadsFolder, idleMs: tools.bodyTimeoutMs }
    await using upload = await receiveUpload(c.req.raw, endpoint.upload, receiving)

    if (patterns.some(({ name, pattern }) => !pattern.test(params[name] ?? ''))) return tools.answerUnrouted(c.req)
    const call: UncheckedCall = {
      ...{ params, query: {}, body: undefined, upload, caller, db: tools.db, requestId },
      target: targetOf(incoming),
      // Straight from node: to ask hono for a header would make all of them anew.
      ...{ lastEventId: lastEventIdOf(c), ifMatch: c.env.incoming.headers['if-match'] },
      ...{ acceptEncoding: c.env.incoming.headers['accept-encoding'] },
      ...{ signal: signalOf(tools, route, c), onProgress: () => {} },
    }
    const found = await route.find?.(call)

    if (endpoint.query) call.query = validate(endpoint.query, readQuery(c.req.url), '/query')
    if (endpoint.body) call.body = validate(endpoint.body, sent)
    const work = limited(limits, endpoint, { address, body: call.body }, (onProgress) =>
      perform(route, { ...call, onProgress }, found, c.env.incoming.headers['idempotency-key']),
    )
    const answer = await (wantsEvents(route, c) ? streamed(tools, requestId, work) : work(call.onProgress))
    return { ...answer, headers: { ...answer.headers, ...headers } }
  }
}

/** Work as it is; of a sign-in, within the limit on failed attempts. */
function limited(
  limits: Limits,
  { signIn: field }: Endpoint,
  { address, body }: { address: string; body: unknown },
  work: Working,
): Working {
  if (field === undefined) return work
  const secret = String(Object.entries(body ?? {}).find(([name]) => name === field)?.[1] ?? '')
  return (onProgress) => limitSignIn(limits.signIn, { address, secret }, () => work(onProgress))
}

const lastEventIdOf = (c: Context<Env>): string | undefined => c.env.incoming.headers['last-event-id']?.toString()

const targetOf = ({ url = '' }: IncomingMessage): string => url

type Working = (onProgress: UncheckedCall['onProgress']) => Promise<Answer>

const NEVER = new AbortController().signal
/** Proxies must neither keep it nor hold it back. */
const EVENTS = { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' }

/** Of a long request or a stream, which ends with its reader's key too. For the others it is not worth its price. */
function signalOf({ watchCaller }: Answering, { endpoint }: Route, c: Context<Env>): AbortSignal {
  if (endpoint.progress === undefined && endpoint.events === undefined) return NEVER
  const { signal } = c.req.raw
  const { incoming, outgoing } = c.env
  if (endpoint.events === undefined || endpoint.access === 'public' || outgoing.destroyed) return signal
  const watched = watchCaller(presented(incoming.headers))
  outgoing.once('close', watched.leave)
  return AbortSignal.any([signal, watched.signal])
}

const wantsEvents = ({ endpoint }: Route, c: Context<Env>): boolean =>
  endpoint.progress !== undefined && (c.env.incoming.headers.accept?.includes('text/event-stream') ?? false)

/** The status was sent before the work began; how it ended stands in the last event. */
function streamed(tools: ServerTools, requestId: string, work: Working): Answer {
  const about = { log: tools.log, baseUrl: tools.baseUrl(), requestId }
  const events = progressEvents(async (onProgress) => {
    try {
      return { event: 'result', data: JSON.parse((await work(onProgress)).text) }
    } catch (error) {
      return { event: 'problem', data: JSON.parse(failure(error, about).text) }
    }
  })
  return { status: 200, text: '', headers: EVENTS, stream: eventStream(events) }
}

function perform(route: Route, call: UncheckedCall, found: unknown, key: unknown): Promise<Answer> {
  const { endpoint } = route
  const work = async (db: Db): Promise<Answer> => {
    const { status, body, headers = {}, events, bytes, ready } = await route.handle({ ...call, db }, found)
    if (ready) return { status, text: '', headers, ready }
    if (events) return { status, text: '', headers: EVENTS, stream: eventStream(events) }
    if (bytes) return { status, text: '', headers, stream: ReadableStream.from(bytes) }
    return { status, text: body === undefined ? '' : JSON.stringify(body), headers }
  }
  if (!endpoint.creates || typeof key !== 'string') return work(call.db)

  const request = [endpoint.id, call.params, call.query, call.body ?? call.upload?.digest]
  const repeatable = { scope: scopeOf(call.caller), key, request, secret: endpoint.showsSecret === true }
  if (endpoint.progress) return onceAcrossTransactions(call.db, repeatable, () => work(call.db))
  return once(call.db, repeatable, work)
}

const scopeOf = (caller: Caller | undefined): string => (caller?.by === 'key' ? caller.workspace.id : 'operator')
