import type { Readable } from 'node:stream'
import { checkedAddresses, codeOf, OutboundFailed, OutboundRefused } from './outbound.ts'
import { type AgentFor, pinnedAgents } from './pinned-agents.ts'
import { type Resolve, remembered, resolveName } from './public-host.ts'
import { type Trust, urlRefusal } from './url-rules.ts'

type Sent = {
  trust: Trust
  method: string
  headers: Record<string, string>
  body: Uint8Array | null
  signal: AbortSignal
}

type Answered = { status: number; headers: Record<string, string | string[] | undefined>; body: Readable }

/** Nothing was heard of us there: the same request may be sent again. */
export class NotConnected extends OutboundFailed {
  override name = 'NotConnected'
}

/** An answer as it comes, for as long as it takes. Redirects are answers like others. */
export type OpenStream = (url: string, sent: Sent) => Promise<Answered>

/** The guard of `createOutbound`, for answers that are passed on while they are still being made. */
export function createOpenStream(options: { resolve?: Resolve; agentFor?: AgentFor } = {}): OpenStream {
  const resolve = options.resolve ?? remembered(resolveName)
  const agentFor = options.agentFor ?? pinnedAgents()
  return async (address, { trust, signal, ...sent }) => {
    const url = URL.parse(address)
    const refusal = url ? urlRefusal(url, trust) : 'invalid_url'
    if (!url || refusal) throw new OutboundRefused(refusal ?? 'invalid_url', url)

    const addresses = await checkedAddresses({ resolve }, { url, rule: trust }, { signal })
    const { origin, pathname, search } = url
    const request = { ...sent, origin, path: `${pathname}${search}`, signal }
    try {
      const { statusCode, headers, body } = await agentFor(addresses).request(request)
      return { status: statusCode, headers, body }
    } catch (error) {
      signal.throwIfAborted()
      throw explained(url, error)
    }
  }
}

const NOT_CONNECTED = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL', 'UND_ERR_CONNECT_TIMEOUT']

/** Only the code is kept: the original may quote a header, and a header has the key. */
function explained(url: URL, error: unknown): Error {
  const code = codeOf(error)
  if (code === 'UND_ERR_INVALID_ARG') return new OutboundRefused('header_not_valid', url)
  const Kind = NOT_CONNECTED.includes(code) ? NotConnected : OutboundFailed
  return new Kind('unreachable', url, `the connection broke or could not be made (${code})`)
}
