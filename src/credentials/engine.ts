import { lookup } from 'node:dns/promises'
import { connect, isIP, type Socket } from 'node:net'
import { addAbortSignal } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { isPublicAddress } from '../platform/outbound/addresses.ts'
import { hostOf } from '../platform/outbound/url-rules.ts'

/** A Docker engine. A stranger's address must be public; the operator's own may be anywhere. */
export type Engine =
  | { socketPath: string }
  | { url: URL; tls: { ca?: string; cert?: string; key?: string } | undefined; publicOnly: boolean }

type Resolve = (host: string) => Promise<string[]>

const TLS_PORT = '2376'
const TIMEOUT_MS = 10_000
const ANSWER_BYTES_MAX = 4096
const PING = 'GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n'

/** `tcp://HOST:PORT` as a URL whose host is read as browsers read it, so that 0x7f.1 is known for what it is. */
export function engineUrl(address: string, port: string = TLS_PORT): URL | undefined {
  const [, host, given = port] = /^(?:tcp|https):\/\/([^/:@]+|\[[^/@\]]+\])(?::(\d{1,5}))?\/?$/i.exec(address) ?? []
  return (host && URL.parse(`https://${host}:${given}`)) || undefined
}

/**
 * Undefined when the engine answers, else what stood in the way. One line is all we ask: Docker's protocol needs
 * client certificates and local sockets, which the outbound client does not offer.
 */
export async function engineTrouble(engine: Engine, resolve: Resolve = resolveName): Promise<string | undefined> {
  try {
    const socket = await dial(engine, resolve)
    if (socket === 'private') return 'the host does not resolve to public addresses only'
    const [, status = 'nothing we understand'] = /^HTTP\/1\.\d (\d{3})/.exec(await ping(socket)) ?? []
    return status === '200' ? undefined : `it answered ${status}`
  } catch (error) {
    return `it could not be reached (${codeOf(error)})`
  }
}

async function dial(engine: Engine, resolve: Resolve): Promise<Socket | 'private'> {
  if ('socketPath' in engine) return connect(engine.socketPath)

  const name = hostOf(engine.url)
  const addresses = isIP(name) === 0 ? await resolve(name) : [name]
  if (engine.publicOnly && !addresses.every(isPublicAddress)) return 'private'

  // The address that was checked is the one we connect to; TLS still asks for the name.
  const [host] = addresses
  if (!host) throw new Error('no address') // an empty host would mean this machine
  const where = { host, port: Number(engine.url.port || 443) }
  if (!engine.tls) return connect(where)
  return connectTls({ ...where, ...engine.tls, ...(isIP(name) === 0 ? { servername: name } : {}) })
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

const codeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return 'unknown'
  return 'code' in error ? String(error.code) : error.name
}

async function resolveName(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address)
}
