import type { Duplex } from 'node:stream'
import type { GatewayRuntime } from './call-context.ts'
import { hashSecret } from './grants.ts'
import type { Grant } from './ledger.ts'
import { openResumableConnections } from './resumable-connections.ts'

type ConnectRequest = { url?: string | undefined; headers: { 'proxy-authorization'?: string | undefined } }

/** Maps connections to grants. No request on a connection can change its grant. */
export type Tunnels = {
  /** Handles a CONNECT request. Only workers have tunnel secrets. */
  accept(request: ConnectRequest, socket: Duplex, head: Buffer): void
  grantOf(connection: Duplex): Grant | undefined
  count(): number
  closeAll(): void
}

type TunnelRuntime = Pick<GatewayRuntime, 'ledger' | 'holdsMasterKey' | 'log' | 'options'>

/** Opens the tunnels of a gateway. `onConnection` receives each connection from a sandbox. */
export function openTunnels(runtime: TunnelRuntime, onConnection: (connection: Duplex) => void): Tunnels {
  const { tunnelsAtOnce, resumeMs } = runtime.options
  const connections = openGrantConnections(tunnelsAtOnce)
  const resumable = openResumableConnections({ resumeMs, connectionsMax: tunnelsAtOnce })
  const targets = new Map<string, (grant: Grant, socket: Duplex) => void>([
    // Each connection has its own tunnel.
    [
      'gateway:80',
      (grant, socket) => {
        if (!connections.add(socket, grant)) return refuse(socket, '503 Service Unavailable')
        socket.write(ESTABLISHED)
        onConnection(socket)
      },
    ],
    // A pipe of resumable connections.
    [
      'resumable:80',
      (grant, socket) => {
        if (!resumable.hasRoom(grant.id)) return refuse(socket, '503 Service Unavailable')
        socket.write(ESTABLISHED)
        resumable.addPipe(grant.id, socket, (connection) => {
          const isAdded = connections.add(connection, grant)
          if (isAdded) onConnection(connection)
          return isAdded
        })
      },
    ],
    // Ends the resumable connections of a worker that needs them no longer.
    [
      'forget:80',
      (grant, socket) => {
        resumable.forget(grant.id)
        refuse(socket, '200 OK')
      },
    ],
  ])
  const accept = async (request: ConnectRequest, socket: Duplex) => {
    const target = targets.get(request.url ?? '')
    if (connections.grantOf(socket) || !target) return refuse(socket, '403 Forbidden')
    const grant = await findGrant(runtime, request)
    if (!grant) return refuse(socket, '407 Proxy Authentication Required')
    if (runtime.holdsMasterKey?.() === false) return refuse(socket, '503 Service Unavailable')
    target(grant, socket)
  }
  return {
    accept(request, socket, head) {
      socket.on('error', () => socket.destroy())
      if (head.length > 0) socket.unshift(head)
      accept(request, socket).catch((error: unknown) => {
        runtime.log.error({ error }, 'a tunnel could not be opened')
        refuse(socket, '503 Service Unavailable')
      })
    },
    grantOf: connections.grantOf,
    count: connections.count,
    closeAll() {
      connections.closeAll()
      resumable.closeAll()
    },
  }
}

async function findGrant({ ledger }: TunnelRuntime, { headers }: ConnectRequest): Promise<Grant | undefined> {
  const secret = /^Bearer +(\w+)$/i.exec(headers['proxy-authorization'] ?? '')?.[1]
  return secret ? ledger.findByTunnelSecret(hashSecret(secret)) : undefined
}

const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n\r\n'

const refuse = (socket: Duplex, status: string): void =>
  void socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)

function openGrantConnections(atOnceMax: number) {
  const grants = new Map<Duplex, Grant>()
  const counts = new Map<string, number>()
  const addToCount = (id: string, change: 1 | -1) => {
    const count = (counts.get(id) ?? 0) + change
    if (count === 0) counts.delete(id)
    else counts.set(id, count)
  }
  return {
    /** Returns false if the grant has too many connections. */
    add(connection: Duplex, grant: Grant): boolean {
      if ((counts.get(grant.id) ?? 0) >= atOnceMax || connection.destroyed) return false
      grants.set(connection, grant)
      addToCount(grant.id, 1)
      connection.once('close', () => {
        grants.delete(connection)
        addToCount(grant.id, -1)
      })
      return true
    },
    grantOf: (connection: Duplex) => grants.get(connection),
    count: () => grants.size,
    closeAll() {
      for (const connection of grants.keys()) connection.destroy()
    },
  }
}
