import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { listHopByHopHeaders } from '../platform/outbound/hop-by-hop.ts'
import type { WireProtocol } from './wire-protocol.ts'

export type HeaderValues = Record<string, string | string[] | undefined>

/**
 * Headers that are forwarded in every protocol; each protocol adds its own. All others are dropped: they may identify
 * another payer, select another price or model, let a proxy route elsewhere, or make the answer conditional or partial.
 */
const FORWARDED_HEADERS = /^(accept|user-agent|x-stainless-(lang|package-version|os|arch|runtime|runtime-version))$/

/** Returns true if an `Accept` header allows only formats that can be metered. */
const isMeterable = (accept: string): boolean =>
  accept.split(',').every((type) => /^\s*(application\/json|text\/event-stream|\*\/\*)\s*(;|$)/i.test(type))

/**
 * Returns the headers to send to the provider, with the key in place of the token. If there is no key, the transport of
 * the cloud authenticates the request.
 */
export function buildUpstreamHeaders(
  headers: HeaderValues,
  {
    forwardedHeaders,
    filterHeader,
    authHeaders,
  }: Pick<WireProtocol, 'forwardedHeaders' | 'filterHeader' | 'authHeaders'>,
  key: string | undefined,
): Record<string, string> {
  const forwarded = removeHopByHop(headers)
    .filter(([name]) => FORWARDED_HEADERS.test(name) || forwardedHeaders?.test(name))
    .filter(([name, value]) => name !== 'accept' || isMeterable(value))
    .map(([name, value]): [string, string] => [name, filterHeader?.(name, value) ?? value])
    .filter(([, value]) => value !== '')
  return {
    ...Object.fromEntries(forwarded),
    'content-type': 'application/json',
    'accept-encoding': 'identity',
    ...(key === undefined ? {} : authHeaders(key)),
  }
}

/** Response headers that are not relayed: they describe the upstream connection, or the account behind the key. */
const HIDDEN_HEADERS =
  /^(content-(length|encoding)|set-cookie2?|alt-svc|strict-transport-security|server|via|nel|report-to|cf-.*|.*(organi[sz]ation|project|workspace).*)$/

export const filterResponseHeaders = (headers: HeaderValues): Record<string, string> =>
  Object.fromEntries(removeHopByHop(headers).filter(([name]) => !HIDDEN_HEADERS.test(name)))

function removeHopByHop(headers: HeaderValues): [string, string][] {
  const hops = listHopByHopHeaders(joinValues(headers.connection))
  return Object.entries(headers)
    .map(([name, value]): [string, string] => [name.toLowerCase(), joinValues(value)])
    .filter(([name, value]) => value !== '' && !hops.has(name))
}

const joinValues = (value: string | string[] | undefined): string =>
  Array.isArray(value) ? value.join(', ') : (value ?? '')

/** Query parameters that providers need. Others may be keys, or masks that hide the usage. */
const FORWARDED_QUERY = ['alt', 'beta']
const isForwardedQuery = ([name, value]: [string, string]): boolean =>
  FORWARDED_QUERY.includes(name) && (name !== 'alt' || value === 'sse' || value === 'json')

export function buildUpstreamQuery(query: URLSearchParams): string {
  const text = new URLSearchParams([...query].filter(isForwardedQuery)).toString()
  return text === '' ? '' : `?${text}`
}

/** Lists the tokens in all the places where clients put their key. */
export function listTokens(headers: HeaderValues, query: URLSearchParams): string[] {
  const bearer = /^Bearer +(\S+)$/i.exec(joinValues(headers.authorization))?.[1]
  const candidates = [bearer, headers['x-api-key'], headers['x-goog-api-key'], headers['api-key'], query.get('key')]
  return candidates.flatMap((value) => (typeof value === 'string' && value !== '' ? [value] : []))
}

const DECODERS: Record<string, () => Transform> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** Returns a decoder for a `Content-Encoding`, null if there is nothing to decode, or undefined if it is unsupported. */
export function createDecoder(encoding: string | string[] | undefined): Transform | null | undefined {
  if (encoding === undefined || encoding === '' || encoding === 'identity') return null
  return typeof encoding === 'string' ? DECODERS[encoding.trim().toLowerCase()]?.() : undefined
}
