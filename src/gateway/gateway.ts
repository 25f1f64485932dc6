import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { newId } from '../platform/ids.ts'
import type { ProxyTools } from './asking.ts'
import { clientOf } from './client.ts'
import { openInputMemory } from './input-memory.ts'
import { rememberedKeys } from './keys.ts'
import type { Grant } from './ledger.ts'
import { DEFAULTS, type GatewayOptions } from './options.ts'
import { answerOutside } from './outside.ts'
import { BROKEN } from './problems.ts'
import { serve } from './proxy.ts'
import { openRooms } from './rooms.ts'
import { secretHash } from './secret.ts'
import type { Watch } from './watch.ts'

export type GatewayTools = Omit<ProxyTools, 'gatewayId' | 'options' | 'rooms' | 'inputs' | 'watches'>

export type Gateway = {
  url: string
  /** Open connections of sandboxes. */
  tunnels(): number
  /** Calls under way may end for so long; then they are broken off, and settled. */
  stop(graceMs: number): Promise<void>
}

type Place = { host: string; port: number }

/** Many sandboxes start at the same moment. */
const BACKLOG = 4096
const HEADER_BYTES_MAX = 64 * 1024
const HEADERS_MS = 20_000
/** A program keeps its connection while its model's commands run. */
const KEEP_ALIVE_MS = 15 * 60_000

/** The one thing that a sandbox can reach: models, for as much as its grant allows. */
export async function startGateway(
  given: GatewayTools,
  place: Place,
  changed: Partial<GatewayOptions> = {},
): Promise<Gateway> {
  const options = { ...DEFAULTS, ...changed }
  const openKey = rememberedKeys(given.openKey)
  const own = {
    gatewayId: newId(),
    options,
    rooms: openRooms(options),
    inputs: openInputMemory(),
    watches: new Set<Watch>(),
  }
  const tools: ProxyTools = { ...given, openKey, ...own }
  const tunnels = openTunnels(options.tunnelsAtOnce)
  const calls = new Set<Promise<void>>()

  const server = createServer(serverOptions(options), (request, response) => {
    if (!server.listening) return answerStopping(response)
    const call = answer(tools, tunnels.grantOf(request.socket), request, response)
    calls.add(call)
    void call.finally(() => calls.delete(call))
  })
  // A client that has said all and waits for the answer may close its half.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on('connect', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    const opened = openTunnel(tools, tunnels, request, socket)
    opened.then(
      (isOpen) => isOpen && admit(server, socket, head),
      (error: unknown) => {
        tools.log.error({ error }, 'a tunnel could not be opened')
        hangUp(socket, '503 Service Unavailable')
      },
    )
  })
  await tools.ledger.noteAlive(tools.gatewayId)
  const url = await listen(server, place)
  const pulse = setInterval(() => beat(tools), BEAT_MS).unref()
  const end = async (graceMs: number) => {
    await stop(server, { tools, tunnels, calls }, graceMs)
    clearInterval(pulse)
  }
  return { url, tunnels: tunnels.count, stop: end }
}

/** Several times before anybody takes it for dead. */
const BEAT_MS = 3_000

const beat = ({ ledger, gatewayId, log }: ProxyTools): void =>
  void ledger
    .noteAlive(gatewayId)
    .catch((error: unknown) => log.warn({ error }, 'the gateway could not say that it lives'))

const serverOptions = ({ requestMs }: GatewayOptions) => ({
  maxHeaderSize: HEADER_BYTES_MAX,
  headersTimeout: Math.min(HEADERS_MS, requestMs),
  requestTimeout: requestMs,
  connectionsCheckingInterval: Math.min(5_000, requestMs),
  keepAliveTimeout: KEEP_ALIVE_MS,
})

/** Which connection belongs to which grant. Nothing that is said on a connection can change that. */
type Tunnels = {
  open(socket: Duplex, grant: Grant): boolean
  grantOf(socket: Duplex): Grant | undefined
  count(): number
  closeAll(): void
}

function openTunnels(atOnceMax: number): Tunnels {
  const grants = new Map<Duplex, Grant>()
  const counts = new Map<string, number>()
  const count = (id: string, by: number) => {
    const now = (counts.get(id) ?? 0) + by
    if (now === 0) counts.delete(id)
    else counts.set(id, now)
  }
  return {
    open(socket, grant) {
      if ((counts.get(grant.id) ?? 0) >= atOnceMax || socket.destroyed) return false
      grants.set(socket, grant)
      count(grant.id, 1)
      socket.once('close', () => {
        grants.delete(socket)
        count(grant.id, -1)
      })
      return true
    },
    grantOf: (socket) => grants.get(socket),
    count: () => grants.size,
    closeAll() {
      for (const socket of grants.keys()) socket.destroy()
    },
  }
}

/** Only a worker has the listener secret; it opens one tunnel for each connection of its sandbox. */
async function openTunnel(
  { ledger }: ProxyTools,
  tunnels: Tunnels,
  request: IncomingMessage,
  socket: Duplex,
): Promise<boolean> {
  const listener = /^Bearer +(\w+)$/i.exec(request.headers['proxy-authorization'] ?? '')?.[1]
  if (tunnels.grantOf(socket) || request.url !== 'gateway:80') return hangUp(socket, '403 Forbidden')
  const grant = listener ? await ledger.findByListener(secretHash(listener)) : undefined
  if (!grant) return hangUp(socket, '407 Proxy Authentication Required')
  return tunnels.open(socket, grant) || hangUp(socket, '503 Service Unavailable')
}

function hangUp(socket: Duplex, status: string): false {
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
  return false
}

function admit(server: Server, socket: Duplex, head: Buffer): void {
  socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
  if (head.length > 0) socket.unshift(head)
  server.emit('connection', socket)
}

async function answer(
  tools: ProxyTools,
  grant: Grant | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const client = clientOf(response, tools.options.idleMs)
  const { method = '', url = '', headers } = request
  const { authorization } = headers
  const [path = '', ...query] = url.split('?')
  try {
    if (!grant) {
      const { status, headers, text } = await answerOutside(tools.metrics, { method, url, authorization })
      return void response.writeHead(status, headers).end(text)
    }
    const asked = { method, path, query: new URLSearchParams(query.join('?')), headers, body: request }
    await serve(tools, grant, asked, client)
  } catch (error) {
    tools.log.error({ error, grant: grant?.id }, 'a request to the gateway failed')
    client.answer(BROKEN.status, { error: { code: BROKEN.code, message: BROKEN.message } })
  }
}

function answerStopping(response: ServerResponse): void {
  const headers = { 'content-type': 'application/json', connection: 'close', 'retry-after': '1' }
  response.writeHead(503, headers).end('{"error":{"message":"The gateway is being stopped. Ask again."}}')
}

async function listen(server: Server, { host, port }: Place): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host, backlog: BACKLOG }, resolve)
  })
  const address = server.address()
  if (!isBound(address)) throw new Error('The gateway listens on no address.')
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`
}

const isBound = (address: AddressInfo | string | null): address is AddressInfo =>
  typeof address === 'object' && address !== null

type Parts = { tools: ProxyTools; tunnels: Tunnels; calls: Set<Promise<void>> }

async function stop(server: Server, { tools, tunnels, calls }: Parts, graceMs: number): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeIdleConnections()
  const grace = new AbortController()
  const ended = Promise.allSettled([...calls])
  await Promise.race([ended, wait(graceMs, undefined, { signal: grace.signal }).catch(() => {})])
  grace.abort()
  for (const watch of tools.watches) watch.breakOff('stop')
  await Promise.allSettled([...calls])
  tunnels.closeAll()
  server.closeAllConnections()
  await closed
}
