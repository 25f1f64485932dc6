/** A kind of problem that a client can act on. Each is explained at /docs/problems. */
export type ProblemKind = {
  code: string
  status: number
  title: string
  /** Explanation and remedy, for the page that `type` links to. */
  meaning: string
  retryable?: true
}

export type FieldError = { pointer: string; code: string; message: string }

/** Escapes a name for use in a JSON pointer (RFC 6901). */
export const toPointerStep = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

/** `members` are added to the body of the response, `headers` to its headers. */
type ProblemExtra = { errors?: FieldError[]; members?: Record<string, unknown>; headers?: Record<string, string> }

/** A mistake of the caller. Can be thrown anywhere; the HTTP server converts it to a response. */
export class Problem extends Error {
  readonly kind: ProblemKind
  readonly extra: ProblemExtra

  constructor(kind: ProblemKind, detail: string, extra: ProblemExtra = {}) {
    super(detail)
    this.name = 'Problem'
    this.kind = kind
    this.extra = extra
  }
}

const problem = <const K extends ProblemKind>(kind: K): K => kind

export const malformedBody = problem({
  code: 'malformed_body',
  status: 400,
  title: 'Malformed body',
  meaning:
    'The body is not UTF-8 JSON, an object in it has a duplicate key (`errors` has its pointer), or it is not gzip where an archive is expected. Send one JSON value, or one archive.',
})
export const unauthenticated = problem({
  code: 'unauthenticated',
  status: 401,
  title: 'Valid API key required',
  meaning: 'The key is missing, malformed, expired or revoked. Send `Authorization: Bearer <key>`.',
})
export const forbidden = problem({
  code: 'forbidden',
  status: 403,
  title: 'Insufficient permission',
  meaning: 'The key is valid and its permission is too low: `read` < `write` < `admin`.',
})
export const csrfTokenInvalid = problem({
  code: 'csrf_token_invalid',
  status: 403,
  title: 'CSRF token missing or invalid',
  meaning: 'A browser session sends the `csrfToken` of its sign-in as `X-CSRF-Token` with every change.',
})
export const notFound = problem({
  code: 'not_found',
  status: 404,
  title: 'Not found',
  meaning: 'Nothing exists at this path, or it belongs to another workspace.',
})
export const methodNotAllowed = problem({
  code: 'method_not_allowed',
  status: 405,
  title: 'Method not allowed',
  meaning: 'The `Allow` header lists the methods of this path.',
})
export const requestTimeout = problem({
  code: 'request_timeout',
  status: 408,
  title: 'Request body timed out',
  meaning: 'A JSON body must arrive within 30 s, and an upload must not pause for that long. Send the request again.',
  retryable: true,
})
export const preconditionFailed = problem({
  code: 'precondition_failed',
  status: 412,
  title: 'The resource has changed since you read it',
  meaning: 'Another request changed the resource. Read it again and send the new ETag as `If-Match`.',
})
export const preconditionRequired = problem({
  code: 'precondition_required',
  status: 428,
  title: 'If-Match header required',
  meaning: 'Send the ETag of the version you have read as `If-Match`, so that no other change is lost.',
})
export const bodyTooLarge = problem({
  code: 'body_too_large',
  status: 413,
  title: 'Body too large',
  meaning: 'JSON bodies hold at most 2 MiB, archives 64 MiB, harness bundles 256 MiB.',
})
export const unsupportedMediaType = problem({
  code: 'unsupported_media_type',
  status: 415,
  title: 'Unsupported media type',
  meaning: 'Send `Content-Type: application/json`, or `application/gzip` where an archive is expected.',
})
export const invalidRequest = problem({
  code: 'invalid_request',
  status: 422,
  title: 'Invalid request',
  meaning: '`errors` lists each invalid field by JSON Pointer. Query parameters are under `/query`.',
})
export const idempotencyKeyReused = problem({
  code: 'idempotency_key_reused',
  status: 409,
  title: 'Idempotency-Key used for another request',
  meaning: 'For 24 hours a key identifies one request. Send the same body again, or use a new key.',
})
export const idempotencyKeySpent = problem({
  code: 'idempotency_key_spent',
  status: 409,
  title: 'The response to this Idempotency-Key showed a secret',
  meaning: 'The first request succeeded. Its response contained a secret, which is shown once and never stored.',
})
export const rateLimited = problem({
  code: 'rate_limited',
  status: 429,
  title: 'Too many requests',
  meaning: 'Wait for the seconds in `Retry-After`.',
  retryable: true,
})
export const internalError = problem({
  code: 'internal_error',
  status: 500,
  title: 'Internal server error',
  meaning: 'The server log has the cause under this `requestId`.',
  retryable: true,
})
export const unavailable = problem({
  code: 'unavailable',
  status: 503,
  title: 'Service unavailable',
  meaning: 'A component that this request needs, usually the database, is unavailable. Try again.',
  retryable: true,
})
