import { type ClientRequest, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Port } from '../sandboxes/sandbox.ts'

/** High, and beside the proxy's: a task may start servers of its own on the usual ones. */
const GATEWAY_PORT = 31_281
const DIAL_MS = 20_000
const LINGER_MS = 5_000
/** With the tunnels to them twice as many as the gateway takes. A flood of more would look like a gateway that is gone. */
const SOCKETS_MAX = 1024
/** What a connection fails with when no process listens at its other end. */
const NOBODY = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND']

/** Whether the gateway is gone, and not only busy. */
export const isNobodyThere = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && NOBODY.includes(String(error.code))

/** What a program in the sandbox is told. */
export const SANDBOX_GATEWAY_URL = `http://127.0.0.1:${GATEWAY_PORT}`

export type GatewayPort = Port & {
  /** Nobody was there when the gateway was last called. Who calls too often, or hangs up first, has not found that out. */
  isCutOff(): boolean
  /** Ends every connection. What comes later is hung up on. */
  close(): void
}

/** The way of one sandbox to its gateway. The listener secret stays on this side of it. */
export function sandboxPort({ gatewayUrl, listener }: { gatewayUrl: string; listener: string }): GatewayPort {
  const open = new Set<Duplex>()
  let closed = false
  let isCutOff = false
  const keep = (socket: Duplex) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    socket.on('error', () => socket.destroy())
  }
  const carry = async (socket: Socket) => {
    keep(socket)
    socket.allowHalfOpen = true
    socket.setNoDelay(true)
    const tunnel = await openTunnel(gatewayUrl, listener, socket).catch((error: unknown) => {
      isCutOff ||= isNobodyThere(error)
      return undefined
    })
    if (!tunnel) return hangUp(socket)
    isCutOff = false
    keep(tunnel)
    if (closed) return void tunnel.destroy()
    await Promise.all([pipeline(socket, tunnel), pipeline(tunnel, socket)])
  }
  return {
    port: GATEWAY_PORT,
    isCutOff: () => isCutOff,
    onConnection(socket) {
      if (closed || open.size >= SOCKETS_MAX) return void socket.destroy()
      carry(socket).catch(() => socket.destroy())
    },
    close() {
      closed = true
      for (const socket of open) socket.destroy()
    },
  }
}

/** In words that every program understands: a connection that breaks off without any is tried for ever by some. */
function hangUp(socket: Socket): void {
  socket.end('HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
  // What it has sent is read all the same: else the answer would be lost with it.
  socket.resume()
  socket.setTimeout(LINGER_MS, () => socket.destroy())
}

async function openTunnel(gatewayUrl: string, listener: string, client: Socket): Promise<Duplex> {
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>()
  const dialing = connectTo(new URL(gatewayUrl), listener)
  const leave = () => dialing.destroy()
  client.once('close', leave)
  dialing.setTimeout(DIAL_MS, leave)
  dialing.on('error', reject)
  dialing.on('close', () => reject(new Error('The gateway hung up.')))
  dialing.on('response', (answer) => {
    answer.resume()
    reject(new Error(`The gateway answered ${answer.statusCode}.`))
  })
  dialing.on('connect', (answer, tunnel: Socket, head: Buffer) => {
    client.off('close', leave)
    tunnel.setTimeout(0)
    tunnel.setNoDelay(true)
    if (head.length > 0) tunnel.unshift(head)
    if (answer.statusCode === 200) return resolve(tunnel)
    tunnel.destroy()
    reject(new Error(`The gateway answered ${answer.statusCode}.`))
  })
  dialing.end()
  return promise
}

function connectTo(url: URL, listener: string): ClientRequest {
  const request = url.protocol === 'https:' ? requestHttps : requestHttp
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80)
  const headers = { 'proxy-authorization': `Bearer ${listener}` }
  return request({ method: 'CONNECT', host, port, path: 'gateway:80', headers, agent: false })
}
