import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isDatabaseUnavailable } from '../db/db.ts'
import type { Log } from '../log.ts'
import { internalError, Problem, unavailable } from '../problem.ts'
import type { CachedResponse } from './endpoint.ts'
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
    headers.etag = `"${createHash('sha256').update(answer.text).digest('base64url').slice(0, 27)}"`
    if (matchesEtag(request.headers['if-none-match'], headers.etag)) return toEmptyResponse(304, headers)
  }
  if (answer.text === '') return toEmptyResponse(answer.status, headers)
  // If there is no length, node would use chunked encoding.
  headers['content-length'] = String(Buffer.byteLength(answer.text))
  return { status: answer.status, headers, body: answer.text }
}

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
