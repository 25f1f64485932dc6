import type { SentBody } from './bodies.ts'
import type { RuleName, UrlRule } from './url-rules.ts'

/** A request: the first one, or the next one of a redirect chain. */
export type Hop = { url: URL; rule: UrlRule; method: string; headers: Headers; body: SentBody }

/** Headers that contain credentials. They are only sent to the origin they were meant for. */
const CREDENTIAL_HEADERS = [
  'authorization',
  'proxy-authorization',
  'cookie',
  'x-api-key',
  'x-goog-api-key',
  'api-key',
  'private-token',
]
const BODY_HEADERS = ['content-type', 'content-encoding', 'content-language', 'content-location', 'content-length']
const REDIRECTS = [301, 302, 303, 307, 308]

/** Finds the target of a redirect. Returns null if it is not a valid URL, undefined if there is no redirect. */
export function redirectTarget(
  from: URL,
  answer: { status: number; headers: { get(name: string): string | null } },
): URL | null | undefined {
  const location = answer.headers.get('location')
  if (!REDIRECTS.includes(answer.status) || location === null) return undefined
  return URL.parse(location, from.href)
}

/** Builds the next request by the rules of the fetch standard: 303, and 301 or 302 after a POST, become a GET. */
export function nextHop(hop: Hop, status: number, url: URL, rule: RuleName): Hop {
  const headers = new Headers(hop.headers)
  if (url.origin !== hop.url.origin) for (const name of CREDENTIAL_HEADERS) headers.delete(name)
  if (!becomesGet(hop.method, status)) return { url, rule, method: hop.method, headers, body: hop.body }

  for (const name of BODY_HEADERS) headers.delete(name)
  return { url, rule, method: 'GET', headers, body: undefined }
}

function becomesGet(method: string, status: number): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD'
  return (status === 301 || status === 302) && method === 'POST'
}
