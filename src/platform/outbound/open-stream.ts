import type { Readable } from 'node:stream'
import { OutboundFailed, OutboundRefused, resolveAddresses, toErrorCode } from './outbound.ts'
import { createPinnedAgents } from './pinned-connections.ts'
import { cacheLookups, type Resolve, resolveName } from './public-host.ts'
import { findRuleRefusal, type Trust } from './url-rules.ts'

type StreamRequest = {
  trust: Trust
  method: string
  headers: Record<string, string>
  body: Uint8Array | null
  signal: AbortSignal
}

type StreamResponse = { status: number; headers: Record<string, string | string[] | undefined>; body: Readable }

/** Thrown when no connection was established, so that the request can be sent again. */
export class NotConnected extends OutboundFailed {
  override name = 'NotConnected'
}

/** Opens a response as a stream without a deadline. Redirects are not followed. */
export type OpenStream = (url: string, request: StreamRequest) => Promise<StreamResponse>

/** Creates a client that checks URLs and addresses like `createOutbound`, for responses that are forwarded as they arrive. */
export function createOpenStream(options: { resolve?: Resolve } = {}): OpenStream {
  const resolve = options.resolve ?? cacheLookups(resolveName)
  const agentFor = createPinnedAgents()
  return async (address, { trust, signal, ...rest }) => {
    const url = URL.parse(address)
    const refusal = url ? findRuleRefusal(url, trust) : 'invalid_url'
    if (!url || refusal) throw new OutboundRefused(refusal ?? 'invalid_url', url)

    const addresses = await resolveAddresses({ resolve }, { url, rule: trust }, { signal })
    const { origin, pathname, search } = url
    const request = { ...rest, origin, path: `${pathname}${search}`, signal }
    try {
      const { statusCode, headers, body } = await agentFor(addresses).request(request)
      return { status: statusCode, headers, body }
    } catch (error) {
      signal.throwIfAborted()
      throw toOutboundError(url, error)
    }
  }
}

const NOT_CONNECTED = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL', 'UND_ERR_CONNECT_TIMEOUT']

const CONNECTION_FAILED = 'the connection broke or could not be made'

const CONNECTION_SENTENCES: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
  ECONNRESET: 'the server closed the connection',
  UND_ERR_SOCKET: 'the server closed the connection',
  UND_ERR_CONNECT_TIMEOUT: 'the host did not accept a connection in time',
}

/** Converts an error, keeping only its code: the original message may quote a header with the key. */
function toOutboundError(url: URL, error: unknown): Error {
  const code = toErrorCode(error)
  if (code === 'UND_ERR_INVALID_ARG') return new OutboundRefused('header_not_valid', url)
  const ErrorClass = NOT_CONNECTED.includes(code) ? NotConnected : OutboundFailed
  return new ErrorClass('unreachable', url, `${CONNECTION_SENTENCES[code] ?? CONNECTION_FAILED} (${code})`)
}
