import { listHopByHopHeaders } from '../platform/outbound/hop-by-hop.ts'

export type Headers = Record<string, string | string[] | undefined>

/** Who asks, in whose name and on whose bill: the gateway says that itself. */
const OWN = [
  'host',
  'authorization',
  'x-api-key',
  'api-key',
  'cookie',
  'content-length',
  'content-encoding',
  'accept-encoding',
  'expect',
  'content-type',
  'forwarded',
  'via',
  'x-real-ip',
  'x-http-method-override',
  'openai-organization',
  'openai-project',
  // An answer that is partial, deferred or only says that nothing has changed cannot be metered.
  'range',
  'prefer',
  'cache-control',
  'pragma',
]
/**
 * Google's take keys, other projects to bill, and masks that would hide the usage. The others tell gateways that an
 * operator may have before the provider where to send it instead.
 */
const OWN_PREFIXES = [
  'if-',
  'x-vertex-',
  'x-amz',
  'x-forwarded-',
  'x-goog-',
  'x-portkey-',
  'x-litellm-',
  'helicone-',
  'x-helicone-',
  'cf-aig-',
]

/** An answer in another form could not be metered. */
const isUnderstood = (accept: string): boolean =>
  accept.split(',').every((form) => /^\s*(application\/json|text\/event-stream|\*\/\*)\s*(;|$)/i.test(form))

/** What goes on to the provider, with the key in the place of the token. */
export function sentHeaders(headers: Headers, keyHeaders: Record<string, string>): Record<string, string> {
  const kept = withoutHops(headers).filter(
    ([name, value]) =>
      !OWN.includes(name) &&
      !OWN_PREFIXES.some((prefix) => name.startsWith(prefix)) &&
      (name !== 'accept' || isUnderstood(value)),
  )
  const own = { 'content-type': 'application/json', 'accept-encoding': 'identity' }
  return { ...Object.fromEntries(kept), ...own, ...keyHeaders }
}

/** Of the connection between us and the provider, of his other customers, or of the account behind the key. */
const NOT_PASSED =
  /^(content-(length|encoding)|set-cookie2?|alt-svc|strict-transport-security|server|via|nel|report-to|cf-.*|.*(organi[sz]ation|project|workspace).*)$/

export const passedHeaders = (headers: Headers): Record<string, string> =>
  Object.fromEntries(withoutHops(headers).filter(([name]) => !NOT_PASSED.test(name)))

function withoutHops(headers: Headers): [string, string][] {
  const hops = listHopByHopHeaders(textOf(headers.connection))
  return Object.entries(headers)
    .map(([name, value]): [string, string] => [name.toLowerCase(), textOf(value)])
    .filter(([name, value]) => value !== '' && !hops.has(name))
}

const textOf = (value: string | string[] | undefined): string =>
  Array.isArray(value) ? value.join(', ') : (value ?? '')

/** Of the query, the little that means something to a provider. Keys stand there too, and masks that hide the usage. */
const QUERY = ['alt', 'beta', 'api-version']
const isMeant = ([name, value]: [string, string]): boolean =>
  QUERY.includes(name) && (name !== 'alt' || value === 'sse' || value === 'json')

export function sentQuery(query: URLSearchParams): string {
  const kept = new URLSearchParams([...query].filter(isMeant)).toString()
  return kept === '' ? '' : `?${kept}`
}

/** Wherever a program of some provider puts its key. */
export function tokensIn(headers: Headers, query: URLSearchParams): string[] {
  const bearer = /^Bearer +(\S+)$/i.exec(textOf(headers.authorization))?.[1]
  const places = [bearer, headers['x-api-key'], headers['x-goog-api-key'], headers['api-key'], query.get('key')]
  return places.flatMap((value) => (typeof value === 'string' && value !== '' ? [value] : []))
}
