import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isDatabaseUnavailable } from '../db/db.ts'
import { parseOrUndefined } from '../errors.ts'
import type { Log } from '../log.ts'
import { internalError, methodNotAllowed, notFound, Problem, unavailable } from '../problem.ts'
import { type CachedResponse, type Endpoint, getPathParameter, isCatchAll, type ServerEvent } from './endpoint.ts'
import type { HttpAnswer } from './idempotency.ts'

/** A response as it is sent. */
export type WireResponse = { status: number; headers: Record<string, string>; body: WireBody }
type WireBody = string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null

/** Adds the common headers. Reads get a strong ETag, or 304 if the client has that version. */
export function toWireResponse(
  request: IncomingMessage,
  answer: HttpAnswer,
  commonHeaders: Record<string, string>,
): WireResponse {
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  const headers: Record<string, string> = {
    'cache-control': isRead ? 'private, no-cache' : 'no-store',
    'x-content-type-options': 'nosniff',
    ...answer.headers,
    ...commonHeaders,
  }
  if (answer.cached) return toCachedResponse(request, answer.cached, headers)
  headers['content-type'] ??= 'application/json'
  if (answer.stream) return toStreamResponse(request, { ...answer, stream: answer.stream }, headers)
  if (isRead && answer.status === 200) {
    headers.etag = `"${createHash('sha256').update(answer.text).digest('base64url').slice(0, ETAG_LENGTH)}"`
    if (matchesEtag(request.headers['if-none-match'], headers.etag)) return toEmptyResponse(304, headers)
  }
  if (answer.text === '') return toEmptyResponse(answer.status, headers)
  // Node would use chunked encoding if the length were missing.
  headers['content-length'] = String(Buffer.byteLength(answer.text))
  return { status: answer.status, headers, body: answer.text }
}

/** Length of an ETag: 162 bits of the hash, more than enough to tell versions apart. */
const ETAG_LENGTH = 27

function toCachedResponse(
  request: IncomingMessage,
  { body, etag, type }: CachedResponse,
  headers: Record<string, string>,
): WireResponse {
  headers.etag = etag
  if (matchesEtag(request.headers['if-none-match'], etag)) return { status: 304, headers, body: null }
  headers['content-type'] = type
  headers['content-length'] = String(body.byteLength)
  return { status: 200, headers, body }
}

/** Sends a stream. One with an ETag is canceled unread if the client has that version. */
function toStreamResponse(
  request: IncomingMessage,
  { status, stream }: { status: number; stream: ReadableStream<Uint8Array> },
  headers: Record<string, string>,
): WireResponse {
  if (headers.etag === undefined || !matchesEtag(request.headers['if-none-match'], headers.etag))
    return { status, headers, body: stream }
  stream.cancel().catch(() => {})
  const { 'content-length': _, ...rest } = headers
  return toEmptyResponse(304, rest)
}

const toEmptyResponse = (status: number, { 'content-type': _, ...headers }: Record<string, string>): WireResponse => ({
  status,
  headers,
  body: null,
})

const matchesEtag = (ifNoneMatch: string | undefined, etag: string): boolean =>
  ifNoneMatch === etag ||
  (ifNoneMatch?.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag) ?? false)

/** Converts an error: a Problem as it is, anything else to a 500 or 503 without details. */
export function toProblemAnswer(error: unknown, context: { log: Log; baseUrl: string; requestId: string }): HttpAnswer {
  const problem = error instanceof Problem ? error : toUnexpectedProblem(error, context)
  const headers = { ...problem.extra.headers, 'content-type': 'application/problem+json' }
  return { status: problem.kind.status, text: JSON.stringify(buildProblemBody(problem, context)), headers }
}

function toUnexpectedProblem(error: unknown, { log, requestId }: { log: Log; requestId: string }): Problem {
  if (isDatabaseUnavailable(error)) {
    log.warn({ requestId, error }, 'database unavailable')
    return new Problem(unavailable, 'The database is unavailable. Try again.', { headers: { 'retry-after': '1' } })
  }
  log.error({ requestId, error }, 'request failed')
  return new Problem(internalError, 'Internal server error.')
}

/** Builds the RFC 9457 body. `type` is a page of this server's documentation. */
const buildProblemBody = (
  problem: Problem,
  context: { baseUrl: string; requestId: string },
): Record<string, unknown> => ({
  type: `${context.baseUrl}/docs/problems#${problem.kind.code}`,
  title: problem.kind.title,
  status: problem.kind.status,
  detail: problem.message,
  code: problem.kind.code,
  requestId: context.requestId,
  retryable: problem.kind.retryable ?? false,
  errors: problem.extra.errors,
  ...problem.extra.members,
})

const HEARTBEAT_MS = 15_000
const encoder = new TextEncoder()

/** Builds the body of a `text/event-stream` response. Sends heartbeats, so that proxies keep the connection open. */
export function createEventStream(
  events: AsyncIterable<ServerEvent>,
  heartbeatMs = HEARTBEAT_MS,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const source = events[Symbol.asyncIterator]()
  let heartbeat: NodeJS.Timeout | undefined
  return new ReadableStream({
    start(controller) {
      heartbeat = setInterval(() => controller.enqueue(encoder.encode(': still here\n\n')), heartbeatMs)
    },
    async pull(controller) {
      try {
        const { done, value } = await source.next()
        if (!done) return controller.enqueue(encoder.encode(formatEvent(value)))
        clearInterval(heartbeat)
        controller.close()
      } catch (error) {
        clearInterval(heartbeat)
        controller.error(error)
      }
    },
    cancel() {
      clearInterval(heartbeat)
      void source.return?.() // Takes effect at its next event.
    },
  })
}

/** Formats an event. JSON contains no line breaks, so its data is one line. */
const formatEvent = ({ id, event, data }: ServerEvent): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

/**
 * Runs work that reports progress. Yields `progress` events, then the event that the work returned. A reader that is slower
 * than the reports gets only the newest one.
 */
export async function* streamProgressEvents(
  work: (onProgress: (data: unknown) => void) => Promise<ServerEvent>,
): AsyncGenerator<ServerEvent> {
  let latest: { data: unknown } | undefined
  let changed = Promise.withResolvers<void>()
  let finalEvent: ServerEvent | undefined
  const onProgress = (data: unknown): void => {
    latest = { data }
    changed.resolve()
  }
  const ending = work(onProgress).then((event) => {
    finalEvent = event
    changed.resolve()
  })
  ending.catch(changed.reject)
  while (finalEvent === undefined) {
    await changed.promise
    changed = Promise.withResolvers()
    if (latest) yield { event: 'progress', data: latest.data }
    latest = undefined
  }
  yield finalEvent
}

export const NOT_FOUND_DETAIL = 'Nothing exists at this path.'

/** Paths that are not endpoints. All of them are read-only. */
const META_PATHS = ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs', '/docs/problems']

/** Answers a request that matches no endpoint: OPTIONS, 404 or 405. */
export type AnswerUnrouted = (request: { method: string; path: string }) => HttpAnswer

export function createUnroutedAnswerer(endpoints: readonly Endpoint[]): AnswerUnrouted {
  const matchers = endpoints.map((endpoint) => ({ endpoint, matches: createPathMatcher(endpoint.path) }))

  return ({ method, path }) => {
    const matching = matchers.filter(({ matches }) => matches(path)).map(({ endpoint }) => endpoint)
    const methods = listAllowedMethods(matching, path)
    const allow = methods.join(', ')
    if (methods.length > 0 && method === 'OPTIONS')
      return { status: 204, text: '', headers: { allow, ...buildPreflightHeaders(matching, allow) } }
    if (methods.length === 0 || methods.includes(method)) throw new Problem(notFound, NOT_FOUND_DETAIL)
    throw new Problem(methodNotAllowed, `Allowed methods: ${allow}.`, { headers: { allow } })
  }
}

function listAllowedMethods(matching: readonly Endpoint[], path: string): string[] {
  const methods = new Set<string>(matching.map(({ method }) => method))
  if (META_PATHS.includes(path)) methods.add('GET')
  if (methods.has('GET')) methods.add('HEAD')
  if (methods.size > 0) methods.add('OPTIONS')
  return [...methods]
}

/** Builds the CORS preflight headers. `*` does not include `Authorization`. */
const buildPreflightHeaders = (matching: readonly Endpoint[], allow: string): Record<string, string> =>
  matching.some(({ crossOrigin }) => crossOrigin)
    ? {
        'access-control-allow-methods': allow,
        'access-control-allow-headers': '*, Authorization',
        'access-control-max-age': '86400',
      }
    : {}

/** Returns a function that tests a path against a template and the pattern of each of its parameters. */
function createPathMatcher(template: string): (path: string) => boolean {
  const names: string[] = []
  const source = template.replaceAll('.', '\\.').replaceAll(/\{([^}]+)\}/g, (_, name: string) => {
    names.push(name)
    return isCatchAll(name) ? '(.+)' : '([^/]+)'
  })
  const pattern = new RegExp(`^${source}$`)
  return (path) => {
    const match = pattern.exec(path)
    if (!match) return false
    return names.every((name, index) => getPathParameter(name).pattern.test(decode(match[index + 1] ?? '')))
  }
}

/** Returns invalid percent-encoding unchanged, as Hono does. */
const decode = (value: string): string => parseOrUndefined(() => decodeURIComponent(value)) ?? value
