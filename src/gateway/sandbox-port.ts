import { type ClientRequest, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { hasCode } from '../platform/errors.ts'
import { hostOf } from '../platform/outbound/url-rules.ts'
import { buildFrame, FRAME } from '../sandboxes/resumable-protocol.ts'
import type { Port } from '../sandboxes/sandbox.ts'

/**
 * Port of the gateway inside a sandbox. A high one next to the egress proxy's, because tasks may start servers on the
 * usual ones.
 */
const GATEWAY_PORT = 31_281
/** Maximum time until the gateway accepts a tunnel. */
const DIAL_MS = 20_000
/** Time for a program to read the answer that the gateway is unavailable. */
const LINGER_MS = 5_000
/** Maximum time of the request that ends resumable connections. */
const FORGET_MS = 5_000
/**
 * Maximum number of open sockets. Each connection has two: one to the sandbox and one of its tunnel. This allows twice as
 * many connections as the gateway, so that the gateway refuses first.
 */
const SOCKETS_MAX = 1024

/**
 * Targets of CONNECT requests to the gateway: a tunnel for one connection, a pipe for a resumable connection, and the
 * request to end all resumable connections of the grant.
 */
export const CONNECT_TARGETS = { tunnel: 'gateway:80', pipe: 'resumable:80', forget: 'forget:80' } as const

/** Error codes of connections to an address where no process listens. */
const REFUSED_CODES = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND']

/** Returns true if an error means that the gateway is down, and not only busy. */
export const isConnectionRefused = (error: unknown): boolean => hasCode(error, ...REFUSED_CODES)

/** Base URL of the gateway inside a sandbox. */
export const SANDBOX_GATEWAY_URL = `http://127.0.0.1:${GATEWAY_PORT}`

export type GatewayPort = Port & {
  /**
   * Returns true if the gateway was down when a connection failed, and no connection succeeded since. Connections above a
   * limit and clients that disconnect do not count.
   */
  isCutOff(): boolean
  /** Ends all connections and rejects new ones. Asks the gateway not to wait for another worker if they are resumable. */
  close(): void
  /** Ends all connections of this process. The gateway waits for another worker to resume those that are resumable. */
  leave(): void
}

type SandboxPortOptions = {
  gatewayUrl: string
  tunnelSecret: string
  /** True if the relay of the sandbox resumes connections, so that they outlive this process. */
  isResumable?: boolean | undefined
}

/** Connects one sandbox to the gateway. The tunnel secret never enters the sandbox. */
export function openSandboxPort({ gatewayUrl, tunnelSecret, isResumable = false }: SandboxPortOptions): GatewayPort {
  const url = new URL(gatewayUrl)
  const open = new Set<Duplex>()
  let isClosed = false
  let isCutOff = false
  const track = (socket: Duplex) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    socket.on('error', () => socket.destroy())
  }
  const relay = async (socket: Socket) => {
    track(socket)
    socket.allowHalfOpen = true
    socket.setNoDelay(true)
    const target = isResumable ? CONNECT_TARGETS.pipe : CONNECT_TARGETS.tunnel
    const tunnel = await openTunnel(newConnectRequest(url, tunnelSecret, target), socket).catch((error: unknown) => {
      isCutOff ||= isConnectionRefused(error)
      return undefined
    })
    if (!tunnel) return answerUnavailable(socket, isResumable ? buildFrame(FRAME.unavailable) : UNAVAILABLE)
    isCutOff = false
    track(tunnel)
    if (isClosed) return void tunnel.destroy()
    await Promise.all([pipeline(socket, tunnel), pipeline(tunnel, socket)])
  }
  const leave = () => {
    isClosed = true
    for (const socket of open) socket.destroy()
  }
  return {
    port: GATEWAY_PORT,
    isCutOff: () => isCutOff,
    onConnection(socket) {
      if (isClosed || open.size >= SOCKETS_MAX) return void socket.destroy()
      relay(socket).catch(() => socket.destroy())
    },
    close() {
      if (isResumable && !isClosed) forgetConnections(newConnectRequest(url, tunnelSecret, CONNECT_TARGETS.forget))
      leave()
    },
    leave,
  }
}

const UNAVAILABLE = 'HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'

/** Answers before closing: some programs retry forever after a connection without an answer. */
function answerUnavailable(socket: Socket, answer: string | Buffer): void {
  socket.end(answer)
  // The request must be read: otherwise a reset would discard the answer.
  socket.resume()
  socket.setTimeout(LINGER_MS, () => socket.destroy())
}

/** Asks the gateway to end the connections at once. If this fails, the gateway waits for another worker. */
function forgetConnections(connectRequest: ClientRequest): void {
  const timer = setTimeout(() => connectRequest.destroy(), FORGET_MS)
  connectRequest.on('error', () => {})
  connectRequest.on('close', () => clearTimeout(timer))
  connectRequest.on('response', (answer) => answer.resume())
  connectRequest.on('connect', (_, socket) => {
    clearTimeout(timer)
    socket.destroy()
  })
  connectRequest.end()
}

async function openTunnel(connectRequest: ClientRequest, client: Socket): Promise<Duplex> {
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>()
  const abort = () => connectRequest.destroy()
  client.once('close', abort)
  connectRequest.setTimeout(DIAL_MS, abort)
  connectRequest.on('error', reject)
  connectRequest.on('close', () => reject(new Error('The gateway closed the connection')))
  connectRequest.on('response', (answer) => {
    answer.resume()
    reject(new Error(`The gateway answered ${answer.statusCode}`))
  })
  connectRequest.on('connect', (answer, tunnel: Socket, head: Buffer) => {
    client.off('close', abort)
    tunnel.setTimeout(0)
    tunnel.setNoDelay(true)
    if (head.length > 0) tunnel.unshift(head)
    if (answer.statusCode === 200) return resolve(tunnel)
    tunnel.destroy()
    reject(new Error(`The gateway answered ${answer.statusCode}`))
  })
  connectRequest.end()
  return promise
}

function newConnectRequest(url: URL, tunnelSecret: string, target: string): ClientRequest {
  const request = url.protocol === 'https:' ? requestHttps : requestHttp
  const host = hostOf(url)
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80)
  const headers = { 'proxy-authorization': `Bearer ${tunnelSecret}` }
  return request({ method: 'CONNECT', host, port, path: target, headers, agent: false })
}
