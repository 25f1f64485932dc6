import { createServer, type IncomingMessage, type ServerResponse, request as sendRequest } from 'node:http'
import { connect, type Socket } from 'node:net'
import { type Duplex, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Network } from '../../harbor/task.ts'
import { handleInSequence } from '../../platform/listen.ts'
import { listHopByHopHeaders } from '../../platform/outbound/hop-by-hop.ts'
import { createFixedLookup } from '../../platform/outbound/pinned-connections.ts'
import { type Resolve, resolveName } from '../../platform/outbound/public-host.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { decideEgress, type EgressRefusal, type EgressTarget, parseConnectTarget, toUrlTarget } from './rules.ts'

/** Opens a connection to one of these addresses. Rejects when none answers. */
type Dial = (addresses: readonly string[], port: number) => Promise<Socket>

type EgressLimits = {
  /** Maximum number of concurrent connections, on both sides together. */
  sockets: number
  /** Maximum number of bytes in total, both directions together. */
  bytes: number
  /** Time without traffic after which a connection is closed. */
  idleMs: number
}

/** Options of the proxy. Tests replace `resolve` and `dial`, where access to the network begins. */
export type EgressOptions = Partial<EgressLimits> & {
  resolve?: Resolve
  dial?: Dial
  allowedHosts?: readonly AllowedHost[]
}

type Egress = {
  /** Handles a connection from the sandbox. */
  onConnection(socket: Socket): void
  summary(): EgressSummary
  /** Closes all connections. Later connections are closed at once. */
  close(): void
}

const DEFAULTS: EgressLimits = { sockets: 256, bytes: 8 * 1024 ** 3, idleMs: 60_000 }
const DIAL_TIMEOUT_MS = 10_000
const HEADER_BYTES_MAX = 64 * 1024

type EgressDeps = {
  network: Network
  allowedHosts: readonly AllowedHost[]
  limits: EgressLimits
  resolve: Resolve
  dial: Dial
  ledger: EgressLedger
  open: Set<Duplex>
}

/** Creates the egress proxy of a sandbox or build: an HTTP proxy that allows only the declared destinations. */
export function createEgress(network: Network, options: EgressOptions = {}): Egress {
  const { resolve, dial, allowedHosts = [], ...limits } = options
  const allLimits = { ...DEFAULTS, ...limits }
  const deps: EgressDeps = {
    network,
    allowedHosts,
    limits: allLimits,
    resolve: resolve ?? resolveName,
    dial: dial ?? dialAny,
    ledger: openLedger(allLimits.bytes),
    open: new Set(),
  }
  let closed = false
  // A proxy request has the host in its first line; some clients omit the Host header.
  const handle = handleInSequence((request, response) => {
    forward(deps, request, response).catch(() => response.destroy())
  })
  const server = createServer({ maxHeaderSize: HEADER_BYTES_MAX, requireHostHeader: false }, handle)
  server.on('connect', (request: IncomingMessage, client: Duplex, head: Buffer) => {
    tunnel(deps, request, client, head).catch(() => client.destroy())
  })
  server.on('clientError', (_error, socket) => socket.destroy())
  return {
    onConnection(socket) {
      if (closed || deps.open.size >= deps.limits.sockets) return refuseSocket(deps, socket)
      trackSocket(deps, socket)
      server.emit('connection', socket)
    },
    summary: deps.ledger.summary,
    close() {
      closed = true
      for (const socket of deps.open) socket.destroy()
    },
  }
}

function refuseSocket({ ledger }: EgressDeps, socket: Socket): void {
  ledger.refuse('', 'limit')
  socket.destroy()
}

/** Tracks an open connection until it closes. Errors and idle timeouts close it. */
function trackSocket({ open, limits }: EgressDeps, socket: Socket): void {
  open.add(socket)
  socket.on('close', () => open.delete(socket))
  socket.on('error', () => socket.destroy())
  socket.setTimeout(limits.idleMs, () => socket.destroy())
}

/** Handles CONNECT: relays bytes in both directions, for any protocol. */
async function tunnel(deps: EgressDeps, request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
  const target = parseConnectTarget(request.url ?? '')
  const connection = target ? await connectTo(deps, target) : recordRefusal(deps, request.url ?? '', 'malformed')
  if (connection.kind !== 'open') {
    const [status, phrase, text] = toErrorAnswer(connection)
    client.end(`HTTP/1.1 ${status} ${phrase}\r\nConnection: close\r\nContent-Length: ${text.length}\r\n\r\n${text}`)
    return
  }
  client.write('HTTP/1.1 200 Connection established\r\n\r\n')
  if (head.length > 0) client.unshift(head)
  try {
    await Promise.all([
      pipeline(client, meter(deps.ledger), connection.socket),
      pipeline(connection.socket, meter(deps.ledger), client),
    ])
  } finally {
    connection.socket.destroy()
    client.destroy()
  }
}

/** Forwards plain HTTP in absolute form. Redirects are returned to the client and checked when it follows them. */
async function forward(deps: EgressDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = URL.parse(request.url ?? '')
  if (url?.protocol !== 'http:') {
    const reason = url && request.url?.startsWith('/') === false ? 'scheme_not_allowed' : 'malformed'
    return sendError(response, recordRefusal(deps, request.url ?? '', reason))
  }
  const connection = await connectTo(deps, toUrlTarget(url))
  if (connection.kind !== 'open') return sendError(response, connection)
  try {
    await relayResponse(deps, { url, socket: connection.socket }, request, response)
  } finally {
    connection.socket.destroy()
  }
}

async function relayResponse(
  { ledger }: EgressDeps,
  { url, socket }: { url: URL; socket: Socket },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const upstream = sendRequest({
    createConnection: () => socket,
    method: request.method,
    path: `${url.pathname}${url.search}`,
    headers: { ...dropHopByHopHeaders(request.headers), host: url.host, connection: 'close' },
    setHost: false,
  })
  const responded = new Promise<IncomingMessage>((resolve, reject) => {
    upstream.on('response', resolve)
    upstream.on('error', reject)
    socket.on('close', () => reject(new Error('The server closed the connection.')))
  })
  const sent = pipeline(request, meter(ledger), upstream)
  sent.catch(() => {}) // a server may answer before it has read the whole request
  const upstreamResponse = await responded.catch(() => undefined)
  if (!upstreamResponse) return sendError(response, { kind: 'unreachable' })
  response.writeHead(upstreamResponse.statusCode ?? 502, dropHopByHopHeaders(upstreamResponse.headers))
  await pipeline(upstreamResponse, meter(ledger), response)
}

type ConnectResult =
  | { kind: 'open'; socket: Socket }
  | { kind: 'refused'; reason: EgressRefusal }
  | { kind: 'unreachable' }

async function connectTo(deps: EgressDeps, target: EgressTarget): Promise<ConnectResult> {
  if (deps.ledger.isExhausted()) return recordRefusal(deps, formatTarget(target), 'limit')
  const decision = await decideEgress(deps, target)
  if (decision.kind === 'refused') {
    const refusal = recordRefusal(deps, formatTarget(target), decision.reason)
    // Answered like a name that does not exist: a sandbox must not learn internal names.
    return decision.reason === 'address_not_public' ? { kind: 'unreachable' } : refusal
  }
  if (decision.kind === 'unreachable') return decision
  const socket = await deps.dial(decision.addresses, target.port).catch(() => undefined)
  if (!socket) return { kind: 'unreachable' }
  trackSocket(deps, socket)
  deps.ledger.reach(target)
  return { kind: 'open', socket }
}

function recordRefusal({ ledger }: EgressDeps, host: string, reason: EgressRefusal): ConnectResult {
  ledger.refuse(host, reason)
  return { kind: 'refused', reason }
}

const toErrorAnswer = (connection: Exclude<ConnectResult, { kind: 'open' }>): [number, string, string] =>
  connection.kind === 'refused'
    ? [403, 'Forbidden', `The egress proxy refused this destination: ${connection.reason}.\n`]
    : [502, 'Bad Gateway', 'The destination does not answer.\n']

function sendError(response: ServerResponse, connection: ConnectResult): void {
  if (connection.kind === 'open') return
  const [status, , text] = toErrorAnswer(connection)
  response.writeHead(status, { connection: 'close', 'content-type': 'text/plain' }).end(text)
}

/** Counts the bytes that pass, and ends the connection when the limit is reached. */
const meter = (ledger: EgressLedger): Transform =>
  new Transform({
    transform: (chunk: Buffer, _encoding, done) =>
      ledger.spend(chunk.length) ? done(null, chunk) : done(new Error('The limit on traffic has been reached.')),
  })

function dropHopByHopHeaders(headers: IncomingMessage['headers']): IncomingMessage['headers'] {
  const dropped = listHopByHopHeaders(headers.connection ?? '')
  // Content-Length is kept: a body without it would be read as another request.
  dropped.delete('content-length')
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !dropped.has(name)))
}

function dialAny(addresses: readonly string[], port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: 'pinned', port, lookup: createFixedLookup(addresses), autoSelectFamily: true })
    socket.setTimeout(DIAL_TIMEOUT_MS, () => socket.destroy(new Error('The destination did not answer in time.')))
    socket.on('error', reject)
    socket.on('connect', () => resolve(socket))
  })
}

/** Summary of a sandbox's egress traffic. */
export type EgressSummary = {
  connections: number
  /** Bytes in both directions together. */
  bytes: number
  /** Distinct entries, limited to the first ones. */
  reached: string[]
  refused: { count: number; first: { host: string; reason: EgressRefusal }[] }
}

/** Maximum number of hosts in each list, and of characters of a host with its port. */
const LISTED_MAX = 100
const HOST_LENGTH_MAX = 260

/**
 * Counts egress traffic. The sandbox decides how much there is, so the lists are bounded and only the counts continue.
 */
function openLedger(bytesMax: number) {
  const reached = new Set<string>()
  const refusals = new Map<string, { host: string; reason: EgressRefusal }>()
  const counts = { connections: 0, bytes: 0, refused: 0 }
  return {
    reach(target: EgressTarget): void {
      counts.connections += 1
      if (reached.size < LISTED_MAX) reached.add(formatTarget(target))
    },
    refuse(host: string, reason: EgressRefusal): void {
      counts.refused += 1
      const entry = { host: toPrintableHost(host), reason }
      if (refusals.size < LISTED_MAX) refusals.set(`${reason} ${entry.host}`, entry)
    },
    /** Adds to the count. Returns false if the limit is reached. */
    spend(bytes: number): boolean {
      counts.bytes += bytes
      return counts.bytes <= bytesMax
    },
    isExhausted: (): boolean => counts.bytes > bytesMax,
    summary: (): EgressSummary => ({
      connections: counts.connections,
      bytes: counts.bytes,
      reached: [...reached],
      refused: { count: counts.refused, first: [...refusals.values()] },
    }),
  }
}

type EgressLedger = ReturnType<typeof openLedger>

const formatTarget = ({ host, port }: EgressTarget): string => `${host.includes(':') ? `[${host}]` : host}:${port}`

const toPrintableHost = (host: string): string => host.replace(/[^\x21-\x7e]/g, '?').slice(0, HOST_LENGTH_MAX)
