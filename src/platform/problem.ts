/** A kind of trouble that a client can act on. Each has a page at /docs/problems. */
export type ProblemKind = {
  code: string
  status: number
  title: string
  /** What it means and what to do, for the page that `type` points to. */
  meaning: string
  retryable?: true
}

export type FieldError = { pointer: string; code: string; message: string }

type Extra = { errors?: FieldError[]; members?: Record<string, unknown>; headers?: Record<string, string> }

/** The caller's mistake. Thrown anywhere, turned into an answer in one place: the http server. */
export class Problem extends Error {
  readonly kind: ProblemKind
  readonly extra: Extra

  constructor(kind: ProblemKind, detail: string, extra: Extra = {}) {
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
  title: 'The body cannot be read',
  meaning: 'The body is not UTF-8 JSON, or not gzip where an archive is expected. Send one JSON value, or one archive.',
})
export const unauthenticated = problem({
  code: 'unauthenticated',
  status: 401,
  title: 'A valid key is needed',
  meaning: 'The key is missing, malformed, expired or revoked. Send `Authorization: Bearer <key>`.',
})
export const forbidden = problem({
  code: 'forbidden',
  status: 403,
  title: 'This key may not do that',
  meaning: 'The key is valid and its permission is too low: `read` < `write` < `admin`.',
})
export const csrfTokenInvalid = problem({
  code: 'csrf_token_invalid',
  status: 403,
  title: 'The CSRF token is missing or wrong',
  meaning: 'A browser session sends the `csrfToken` of its sign-in as `X-CSRF-Token` with every change.',
})
export const notFound = problem({
  code: 'not_found',
  status: 404,
  title: 'There is no such thing',
  meaning: 'Nothing is at this address, or it belongs to another workspace.',
})
export const methodNotAllowed = problem({
  code: 'method_not_allowed',
  status: 405,
  title: 'This address does not take that method',
  meaning: 'The `Allow` header lists the methods that it takes.',
})
export const requestTimeout = problem({
  code: 'request_timeout',
  status: 408,
  title: 'The request body did not arrive in time',
  meaning: 'A JSON body must arrive within 30 s, and an upload must not pause for that long. Send the request again.',
  retryable: true,
})
export const preconditionFailed = problem({
  code: 'precondition_failed',
  status: 412,
  title: 'It is not what you have read any more',
  meaning: 'Somebody changed it meanwhile. Read it again, and send the new ETag as `If-Match`.',
})
export const preconditionRequired = problem({
  code: 'precondition_required',
  status: 428,
  title: 'Say what you have read',
  meaning: 'Send the ETag of what you have read as `If-Match`, so that nobody else’s change is lost.',
})
export const bodyTooLarge = problem({
  code: 'body_too_large',
  status: 413,
  title: 'The body is too large',
  meaning: 'JSON bodies hold at most 2 MiB, archives 64 MiB, bundles of harnesses 256 MiB.',
})
export const unsupportedMediaType = problem({
  code: 'unsupported_media_type',
  status: 415,
  title: 'The body is of another type',
  meaning: 'Send `Content-Type: application/json`, or `application/gzip` where an archive is expected.',
})
export const invalidRequest = problem({
  code: 'invalid_request',
  status: 422,
  title: 'The request does not fit its schema',
  meaning: '`errors` lists each field, by JSON Pointer, with what is wrong. Query parameters stand under `/query`.',
})
export const idempotencyKeyReused = problem({
  code: 'idempotency_key_reused',
  status: 409,
  title: 'This Idempotency-Key was used for another request',
  meaning: 'Within 24 hours a key stands for one request. Send the same body again, or a new key.',
})
export const idempotencyKeySpent = problem({
  code: 'idempotency_key_spent',
  status: 409,
  title: 'The answer to this Idempotency-Key showed a secret',
  meaning: 'The first request succeeded. Its answer held a secret, which is shown once and never stored.',
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
  title: 'Something broke on our side',
  meaning: 'The log of the server has the reason under this `requestId`.',
  retryable: true,
})
export const unavailable = problem({
  code: 'unavailable',
  status: 503,
  title: 'The service is not ready',
  meaning: 'A part that this request needs, usually the database, is out of reach. Try again.',
  retryable: true,
})
