// Real servers on 127.0.0.1 that record connections and requests.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Server, Socket } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates, TLSSocket } from 'node:tls'
import { promisify } from 'node:util'

export type Certificate = { key: string; cert: string }
type LoopbackRequest = {
  method: string
  path: string
  headers: IncomingMessage['headers']
  serverName: string | undefined
}
export type Handler = (request: IncomingMessage, response: ServerResponse) => void
export type LoopbackServer = AsyncDisposable & { port: number; connections: Socket[]; requests: LoopbackRequest[] }

/** A public address that the SSRF guard accepts. Tests connect it to a loopback server. */
export const PUBLIC = '93.184.216.34'
export const OTHER_PUBLIC = '93.184.216.35'

/** The IPv6 loopback address. Empty on a machine without IPv6. */
export const IPV6_LOOPBACK = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .filter(({ address }) => address === '::1')
  .map(({ address }) => address)

/** Creates a certificate that only this process trusts. */
export async function trustedCertificate(names: readonly string[]): Promise<Certificate> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-cert-'))
  try {
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const alternatives = names.map((name) => `DNS:${name}`).join(',')
    await promisify(execFile)(
      'openssl',
      ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'].concat([
        '-subj',
        '/CN=assay-test',
        '-addext',
        `subjectAltName=${alternatives}`,
        '-keyout',
        key,
        '-out',
        cert,
      ]),
    )
    const made = { key: await readFile(key, 'utf8'), cert: await readFile(cert, 'utf8') }
    setDefaultCACertificates([...getCACertificates('default'), made.cert])
    return made
  } finally {
    await rm(folder, { recursive: true })
  }
}

export async function startServer(
  handler: Handler,
  { tls, host = '127.0.0.1', port = 0 }: { tls?: Certificate; host?: string; port?: number } = {},
): Promise<LoopbackServer> {
  const requests: LoopbackRequest[] = []
  const listener: Handler = (request, response) => {
    const { method = '', url: path = '', headers, socket } = request
    const serverName = socket instanceof TLSSocket && socket.servername ? socket.servername : undefined
    requests.push({ method, path, headers, serverName })
    handler(request, response)
  }
  const server = tls ? createTlsServer(tls, listener) : createServer(listener)
  const connections = await listen(server, host, port)
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The test server has no port.')
  return {
    port: address.port,
    connections,
    requests,
    async [Symbol.asyncDispose]() {
      for (const socket of connections) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Resolves when the client has closed the first connection. */
export function waitForHangUp({ connections: [socket] }: LoopbackServer): Promise<void> {
  if (!socket) throw new Error('Nobody has connected.')
  return new Promise((resolve) => {
    socket.on('close', () => resolve())
    if (socket.closed) resolve()
  })
}

async function listen(server: Server, host: string, port: number): Promise<Socket[]> {
  const connections: Socket[] = []
  server.on('connection', (socket) => connections.push(socket))
  server.listen(port, host)
  await once(server, 'listening')
  return connections
}

/** Starts an HTTP server on a loopback address. Disposing it also ends open connections. */
export async function listenOnLoopback(
  handler: RequestListener,
  host = '127.0.0.1',
): Promise<Disposable & { url: string }> {
  const server = createServer(handler)
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const address = server.address()
  return {
    url: `http://${host}:${typeof address === 'object' ? address?.port : ''}`,
    [Symbol.dispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}
