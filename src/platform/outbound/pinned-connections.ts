import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, isIP, type LookupFunction, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Agent, type Dispatcher } from 'undici'
import { toListeningUrl } from '../listen.ts'
import { limitFragments } from './fragments.ts'
import { OUTBOUND_CIPHERS } from './tls-limits.ts'

export type AgentFor = (addresses: readonly string[]) => Dispatcher

const AGENTS_MAX = 64

/**
 * Caches one agent per set of addresses, so that connections are reused, but only to addresses that the current request
 * has just checked. Evicted agents need no closing: their idle sockets end by themselves in seconds.
 */
export function createPinnedAgents(): AgentFor {
  const agents = new Map<string, Dispatcher>()
  return (addresses) => {
    const key = addresses.toSorted().join(' ')
    const agent = agents.get(key) ?? createPinnedAgent(addresses)
    agents.delete(key)
    agents.set(key, agent)
    const [oldest] = agents.keys()
    if (agents.size > AGENTS_MAX && oldest !== undefined) agents.delete(oldest)
    return agent
  }
}

/** Creates an agent that connects to these addresses for every name. TLS and the Host header still use the name. */
export function createPinnedAgent(addresses: readonly string[]): Dispatcher {
  const agent = new Agent({
    allowH2: false,
    connect: { lookup: createFixedLookup(addresses), ciphers: OUTBOUND_CIPHERS },
    // The deadline of the request covers both.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  return agent.compose(limitFragments)
}

/** Creates a DNS lookup that returns these addresses for every name. */
export function createFixedLookup(addresses: readonly string[]): LookupFunction {
  const known = addresses.map((address) => ({ address, family: isIP(address) }))
  return (hostname, options, callback) => {
    const [first] = known
    if (!first) return callback(new Error(`No address for ${hostname}.`), '')
    return options.all ? callback(null, known) : callback(null, first.address, first.family)
  }
}

/** The only server that a git process may connect to, with its checked addresses. */
export type PinnedServer = { host: string; port: number; addresses: readonly string[] }

type PinnedProxy = AsyncDisposable & { proxyUrl: string }

const CONNECT_MS = 30_000

/**
 * Starts a proxy on loopback that forwards connections to the pinned server and refuses all others. git and curl parse
 * addresses on their own, but the proxy sees the host that they actually connect to.
 */
export async function openPinnedProxy(pin: PinnedServer): Promise<PinnedProxy> {
  const sockets = new Set<Duplex>()
  const track = <S extends Duplex>(socket: S): S => {
    sockets.add(socket)
    return socket.once('close', () => sockets.delete(socket)).on('error', () => socket.destroy())
  }
  const server = createServer((_, response) => response.writeHead(403).end())
  server.on('connect', (request, client: Duplex) => {
    track(client)
    if (request.url !== formatAuthority(pin)) return client.end('HTTP/1.1 403 Forbidden\r\n\r\n')
    return forward(client, track(dial(pin)))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    proxyUrl: toListeningUrl(server),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const formatAuthority = ({ host, port }: PinnedServer): string => `${isIP(host) === 6 ? `[${host}]` : host}:${port}`

const dial = ({ host, port, addresses }: PinnedServer): Socket =>
  connect({ host, port, lookup: createFixedLookup(addresses), autoSelectFamily: true, timeout: CONNECT_MS })

function forward(client: Duplex, server: Socket): void {
  const fail = () => client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n')
  server.once('timeout', () => server.destroy())
  server.once('error', fail)
  server.once('connect', () => {
    server.off('error', fail)
    server.setTimeout(0)
    client.write('HTTP/1.1 200 Connection established\r\n\r\n')
    client.pipe(server).pipe(client)
  })
  client.once('close', () => server.destroy())
  server.once('close', () => client.end())
}
