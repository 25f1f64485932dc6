import type { Endpoint } from './endpoint.ts'

type HeaderObject = { description: string; schema: { type: 'string' } }

const header = (description: string): HeaderObject => ({ description, schema: { type: 'string' } })

/** Headers of responses that clients may rely on, as components of the OpenAPI document. */
export const RESPONSE_HEADERS = {
  'X-Request-Id': header("Id of the request, as in the server's log. A valid `X-Request-Id` of the request is kept."),
  RateLimit: header('Remaining requests and seconds until all are available again. Absent if rate limits are off.'),
  'RateLimit-Policy': header('Number of requests and window of the rate limit. Absent if rate limits are off.'),
  ETag: header('Version of the response. `If-None-Match` with it is answered with 304.'),
  'Retry-After': header('Seconds to wait before the next request.'),
  'WWW-Authenticate': header('The authentication scheme, `Bearer`.'),
  'Content-Disposition': header('Attachment, with the name of the file.'),
}

type HeaderName = keyof typeof RESPONSE_HEADERS
type HeaderRef = { $ref: string }

/** Lists the headers of a response of an endpoint. */
export function responseHeaders(endpoint: Endpoint, status: number): Partial<Record<HeaderName, HeaderRef>> {
  const isRead = endpoint.method === 'GET' && (status === 200 || status === 304) && endpoint.events === undefined
  const names: HeaderName[] = [
    'X-Request-Id',
    ...(status < 300 || status === 429 ? (['RateLimit', 'RateLimit-Policy'] as const) : []),
    ...(isRead ? (['ETag'] as const) : []),
    ...(endpoint.download && status === 200 ? (['Content-Disposition'] as const) : []),
    ...(status === 401 ? (['WWW-Authenticate'] as const) : []),
    ...(status === 429 || status === 503 ? (['Retry-After'] as const) : []),
  ]
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}
