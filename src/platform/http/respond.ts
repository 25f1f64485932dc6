import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isDatabaseUnavailable } from '../db/db.ts'
import type { Log } from '../log.ts'
import { internalError, Problem, unavailable } from '../problem.ts'
import type { ReadyAnswer } from './endpoint.ts'
import type { Answer } from './idempotency.ts'

/** An answer as it goes over the wire. */
export type Wire = { status: number; headers: Record<string, string>; body: WireBody }
type WireBody = string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null

/** A read gets a strong ETag and, when the client has it already, 304. Also what goes wrong has the headers of all. */
export function wireOf(request: IncomingMessage, answer: Answer, ofAll: Record<string, string>): Wire {
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  const headers: Record<string, string> = {
    'cache-control': isRead ? 'private, no-cache' : 'no-store',
    'x-content-type-options': 'nosniff',
    ...answer.headers,
    ...ofAll,
  }
  if (answer.ready) return readyWire(request, answer.ready, headers)
  headers['content-type'] ??= 'application/json'
  if (answer.stream) return { status: answer.status, headers, body: answer.stream }
  if (isRead && answer.status === 200) {
    headers.etag = `"${createHash('sha256').update(answer.text).digest('base64url').slice(0, 27)}"`
    if (matches(request.headers['if-none-match'], headers.etag)) return empty(304, headers)
  }
  if (answer.text === '') return empty(answer.status, headers)
  // Without its length node would send the body in chunks.
  headers['content-length'] = String(Buffer.byteLength(answer.text))
  return { status: answer.status, headers, body: answer.text }
}

function readyWire(request: IncomingMessage, { body, etag, type }: ReadyAnswer, headers: Record<string, string>): Wire {
  headers.etag = etag
  if (matches(request.headers['if-none-match'], etag)) return { status: 304, headers, body: null }
  headers['content-type'] = type
  headers['content-length'] = String(body.byteLength)
  return { status: 200, headers, body }
}

const empty = (status: number, { 'content-type': _, ...headers }: Record<string, string>): Wire => ({
  ...{ status, headers, body: null },
})

const matches = (ifNoneMatch: string | undefined, etag: string): boolean =>
  ifNoneMatch === etag ||
  (ifNoneMatch?.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag) ?? false)

/** Whatever was thrown, as an answer: a problem as it stands, anything else without its details. */
export function failure(error: unknown, about: { log: Log; baseUrl: string; requestId: string }): Answer {
  const problem = error instanceof Problem ? error : unexpected(error, about)
  const headers = { ...problem.extra.headers, 'content-type': 'application/problem+json' }
  return { status: problem.kind.status, text: JSON.stringify(problemBody(problem, about)), headers }
}

function unexpected(error: unknown, { log, requestId }: { log: Log; requestId: string }): Problem {
  if (isDatabaseUnavailable(error)) {
    log.warn({ requestId, error }, 'the database is out of reach')
    return new Problem(unavailable, 'The database is out of reach. Try again.', { headers: { 'retry-after': '1' } })
  }
  log.error({ requestId, error }, 'request failed')
  return new Problem(internalError, 'Something broke on our side.')
}

/** RFC 9457. `type` is a page of our own docs. */
const problemBody = (problem: Problem, about: { baseUrl: string; requestId: string }): Record<string, unknown> => ({
  type: `${about.baseUrl}/docs/problems#${problem.kind.code}`,
  title: problem.kind.title,
  status: problem.kind.status,
  detail: problem.message,
  code: problem.kind.code,
  requestId: about.requestId,
  retryable: problem.kind.retryable ?? false,
  ...(problem.extra.errors ? { errors: problem.extra.errors } : {}),
  ...problem.extra.members,
})
