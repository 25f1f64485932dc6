import { connect, isIP, type Socket } from 'node:net'
import { addAbortSignal } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { toErrorCode } from '../platform/outbound/outbound.ts'
import { type Resolve, resolveName, resolvePublicHost } from '../platform/outbound/public-host.ts'
import { hostOf } from '../platform/outbound/url-rules.ts'

/** A Docker engine. Untrusted addresses must be public; the operator's own may be private. */
export type EngineTarget =
  | { socketPath: string }
  | {
      url: URL
      tls: { ca?: string | undefined; cert?: string | undefined; key?: string | undefined } | undefined
      publicOnly: boolean
    }

const TLS_PORT = '2376'
const TIMEOUT_MS = 10_000
const ANSWER_BYTES_MAX = 4096
const PING = 'GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n'

/** Parses `tcp://HOST:PORT`. The host is normalised like in a browser, so that 0x7f.1 is recognised as 127.0.0.1. */
export function parseEngineUrl(address: string, port: string = TLS_PORT): URL | undefined {
  const [, host, ownPort = port] = /^(?:tcp|https):\/\/([^/:@]+|\[[^/@\]]+\])(?::(\d{1,5}))?\/?$/i.exec(address) ?? []
  return (host && URL.parse(`https://${host}:${ownPort}`)) || undefined
}

/**
 * Pings an engine. Returns undefined if it responds, otherwise the reason. Uses sockets directly: Docker needs client
 * certificates and unix sockets, which the outbound client does not support.
 */
export async function findEngineError(
  engine: EngineTarget,
  resolve: Resolve = resolveName,
): Promise<string | undefined> {
  try {
    const socket = await dial(engine, resolve)
    if (socket === 'private') return 'the host does not resolve to public addresses only'
    const [, status = 'an invalid answer'] = /^HTTP\/1\.\d (\d{3})/.exec(await ping(socket)) ?? []
    return status === '200' ? undefined : `it responded with ${status}`
  } catch (error) {
    return `it is unreachable (${toErrorCode(error)})`
  }
}

async function dial(engine: EngineTarget, resolve: Resolve): Promise<Socket | 'private'> {
  if ('socketPath' in engine) return connect(engine.socketPath)

  const name = hostOf(engine.url)
  const addresses = engine.publicOnly ? await resolvePublic(name, resolve) : await resolve(name)
  if (engine.publicOnly && addresses.length === 0) return 'private'

  // Connects to the address that was checked. TLS still verifies the name.
  const [host] = addresses
  if (!host) throw new Error('no address') // an empty host would mean this machine
  const target = { host, port: Number(engine.url.port || 443) }
  if (!engine.tls) return connect(target)
  return connectTls({ ...target, ...engine.tls, ...(isIP(name) === 0 ? { servername: name } : {}) })
}

/** Resolves to public addresses or to none. Callers cannot tell a private name from one that does not exist. */
async function resolvePublic(name: string, resolve: Resolve): Promise<string[]> {
  const found = await resolvePublicHost(name, resolve)
  return found.kind === 'public' ? found.addresses : []
}

async function ping(socket: Socket): Promise<string> {
  addAbortSignal(AbortSignal.timeout(TIMEOUT_MS), socket)
  socket.write(PING)
  let text = ''
  try {
    for await (const chunk of socket) {
      text += String(chunk)
      if (text.includes('\n') || text.length > ANSWER_BYTES_MAX) break
    }
  } finally {
    socket.destroy()
  }
  return text
}
