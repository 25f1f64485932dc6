import type { Duplex } from 'node:stream'
import type { GatewayRuntime } from './call-context.ts'
import { hashSecret } from './grants.ts'
import type { Grant } from './ledger.ts'
import { openResumableConnections } from './resumable-connections.ts'
import { CONNECT_TARGETS } from './sandbox-port.ts'

type ConnectRequest = { url?: string | undefined; headers: { 'proxy-authorization'?: string | undefined } }

/** The open connections from sandboxes, each with its grant. No request on a connection can change its grant. */
export type Tunnels = {
  /** Handles a CONNECT request, which must present a tunnel secret. Only workers have one. */
  accept(request: ConnectRequest, socket: Duplex, head: Buffer): void
  grantOf(connection: Duplex): Grant | undefined
  count(): number
  closeAll(): void
}

type TunnelRuntime = Pick<GatewayRuntime, 'ledger' | 'holdsMasterKey' | 'log' | 'options'>

/** Opens the tunnels of a gateway. `onConnection` receives each connection from a sandbox. */
export function openTunnels(runtime: TunnelRuntime, onConnection: (connection: Duplex) => void): Tunnels {
  const { tunnelsAtOnce, resumeMs } = runtime.options
  const connections = createGrantConnections(tunnelsAtOnce)
  const resumable = openResumableConnections({ resumeMs, connectionsMax: tunnelsAtOnce })
  const targets = new Map<string, (grant: Grant, socket: Duplex) => void>([
    [
      CONNECT_TARGETS.tunnel,
      (grant, socket) => {
        if (!connections.add(socket, grant)) return answerAndEnd(socket, '503 Service Unavailable')
        socket.write(ESTABLISHED)
        onConnection(socket)
      },
    ],
    [
      CONNECT_TARGETS.pipe,
      (grant, socket) => {
        if (!resumable.mayAddPipe(grant.id)) return answerAndEnd(socket, '503 Service Unavailable')
        socket.write(ESTABLISHED)
        resumable.addPipe(grant.id, socket, (connection) => {
          const isAdded = connections.add(connection, grant)
          if (isAdded) onConnection(connection)
          return isAdded
        })
      },
    ],
    [
      CONNECT_TARGETS.forget,
      (grant, socket) => {
        resumable.forget(grant.id)
        answerAndEnd(socket, '200 OK')
      },
    ],
  ])
  const accept = async (request: ConnectRequest, socket: Duplex) => {
    const target = targets.get(request.url ?? '')
    if (connections.grantOf(socket) || !target) return answerAndEnd(socket, '403 Forbidden')
    const grant = await findGrant(runtime, request)
    if (!grant) return answerAndEnd(socket, '407 Proxy Authentication Required')
    if (runtime.holdsMasterKey?.() === false) return answerAndEnd(socket, '503 Service Unavailable')
    target(grant, socket)
  }
  return {
    accept(request, socket, head) {
      socket.on('error', () => socket.destroy())
      if (head.length > 0) socket.unshift(head)
      accept(request, socket).catch((error: unknown) => {
        runtime.log.error({ error }, 'a tunnel could not be opened')
        answerAndEnd(socket, '503 Service Unavailable')
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

const answerAndEnd = (socket: Duplex, status: string): void =>
  void socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)

/** Creates the map from connections to grants, with at most `perGrantMax` connections of each grant. */
function createGrantConnections(perGrantMax: number) {
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
      if ((counts.get(grant.id) ?? 0) >= perGrantMax || connection.destroyed) return false
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
