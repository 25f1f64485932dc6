import { spawn } from 'node:child_process'
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { Duplex } from 'node:stream'
import { resolveName, resolvePublicHost } from '../../platform/outbound/public-host.ts'
import { OUTBOUND_CIPHERS } from '../../platform/outbound/tls-limits.ts'
import { isPublicAddress } from '../../platform/outbound/url-rules.ts'
import { SandboxUnavailable } from '../sandbox.ts'

type SshDestination = { destination: string; port: number | null }

/** Returns the arguments with which ssh never prompts. `--` keeps the destination from being parsed as an option. */
export function buildSshArgs({ destination, port }: SshDestination): string[] {
  return [
    ...['-o', 'BatchMode=yes', '-o', 'ConnectTimeout=30', '-T'],
    ...(port === null ? [] : ['-p', String(port)]),
    ...['--', destination, 'docker', 'system', 'dial-stdio'],
  ]
}

/** Opens a connection to the engine over the standard input and output of an ssh process. */
function dialSsh(destination: SshDestination): Duplex {
  const child = spawn('ssh', buildSshArgs(destination), { stdio: ['pipe', 'pipe', 'ignore'] })
  const connection = new SshPipes({
    read: () => void child.stdout.resume(),
    write: (chunk, _encoding, done) => void child.stdin.write(chunk, done),
    final: (done) => void child.stdin.end(done),
    destroy: (error, done) => {
      child.kill()
      done(error)
    },
  })
  child.stdin.on('error', (error) => connection.destroy(error))
  child.stdout.on('data', (chunk) => {
    if (!connection.push(chunk)) child.stdout.pause()
  })
  child.stdout.on('end', () => connection.push(null))
  child.once('error', (error) => connection.destroy(error))
  return connection
}

/**
 * A connection over two pipes. `http.Agent` calls these socket methods on connections that it keeps open; here they are
 * no-ops.
 */
class SshPipes extends Duplex {
  setKeepAlive(): this {
    return this
  }
  setNoDelay(): this {
    return this
  }
  setTimeout(): this {
    return this
  }
  ref(): this {
    return this
  }
  unref(): this {
    return this
  }
}

/** Contents of PEM files. Without a client certificate, the engine must accept any client. */
export type TlsSecret = { ca?: string | undefined; cert?: string | undefined; key?: string | undefined }

/** Address of a Docker engine. */
export type DockerConnection =
  | { kind: 'unix'; path: string }
  | { kind: 'tcp'; host: string; port: number; tls: TlsSecret | null; publicOnly: boolean }
  /** Connects through `docker system dial-stdio` on the remote machine. ssh uses its own configuration and keys. */
  | ({ kind: 'ssh' } & SshDestination)

/** Options of node:http that reach the engine. Each request adds its method and path. */
type DockerRoute = { agent: HttpAgent; secure: boolean; socketPath?: string; host?: string; port?: number }

const NOT_PUBLIC_MESSAGE = 'The Docker engine of a stored credential must be at tcp://HOST:PORT of a public host.'
const DEFAULT_SOCKET = '/var/run/docker.sock'
const PLAIN_PORT = 2375
const TLS_PORT = 2376

/** Parses the address and certificates of a stored credential. Its host is untrusted and must be public. */
export function parseEngineCredential({ host, ca, cert, key }: Partial<Record<string, string>>): DockerConnection {
  const tls = ca !== undefined || cert !== undefined || key !== undefined ? { ca, cert, key } : null
  const connection = parseDockerHost(host, tls)
  if (connection.kind !== 'tcp') throw new SandboxUnavailable(NOT_PUBLIC_MESSAGE)
  if (isIP(connection.host) !== 0 && !isPublicAddress(connection.host)) throw new SandboxUnavailable(NOT_PUBLIC_MESSAGE)
  return { ...connection, publicOnly: true }
}

/** Parses a value of DOCKER_HOST. The default is the usual socket. */
export function parseDockerHost(text: string | undefined, tls: TlsSecret | null = null): DockerConnection {
  if (!text) return { kind: 'unix', path: DEFAULT_SOCKET }
  if (text.startsWith('unix://')) return { kind: 'unix', path: text.slice('unix://'.length) }
  const connection = URL.canParse(text) ? parseEngineUrl(new URL(text), tls) : undefined
  if (connection) return connection
  throw new SandboxUnavailable(
    `${JSON.stringify(text)} is not a valid address of a Docker engine. Use unix:///path, tcp://host:port or ssh://user@host.`,
  )
}

function parseEngineUrl(
  { protocol, hostname, username, port: text }: URL,
  tls: TlsSecret | null,
): DockerConnection | undefined {
  const port = text === '' ? null : Number(text)
  if (hostname === '') return undefined
  if (protocol === 'tcp:') {
    const host = hostname.replace(/^\[(.*)\]$/, '$1')
    return { kind: 'tcp', host, port: port ?? (tls ? TLS_PORT : PLAIN_PORT), tls, publicOnly: false }
  }
  if (protocol !== 'ssh:') return undefined
  return { kind: 'ssh', destination: username ? `${username}@${hostname}` : hostname, port }
}

/** Returns the route to an engine. Connections are kept alive, because a new one per request is slow. */
export function routeTo(connection: DockerConnection): DockerRoute {
  if (connection.kind === 'unix') {
    return { agent: new HttpAgent({ keepAlive: true }), secure: false, socketPath: connection.path }
  }
  if (connection.kind === 'ssh') return { agent: new SshAgent(connection), secure: false, host: 'docker' }
  const { host, port, tls, publicOnly } = connection
  const options = { keepAlive: true, lookup: publicOnly ? lookupPublic : undefined }
  if (tls === null) return { agent: new HttpAgent(options), secure: false, host, port }
  return { agent: new HttpsAgent({ ...options, ...tls, ciphers: OUTBOUND_CIPHERS }), secure: true, host, port }
}

/** Resolves a host for a connection, and fails unless all of its addresses are public. */
const lookupPublic: LookupFunction = (host, { all }, callback) => {
  resolvePublicHost(host, resolveName).then(
    (found) => {
      const addresses = found.kind === 'public' ? found.addresses : []
      const [first] = addresses
      if (first === undefined) return callback(new Error(NOT_PUBLIC_MESSAGE), '')
      if (!all) return callback(null, first, isIP(first))
      callback(
        null,
        addresses.map((address) => ({ address, family: isIP(address) })),
      )
    },
    (error: Error) => callback(error, ''),
  )
}

/** Returns a hint for the operator when the engine does not answer. */
export function describeFix(connection: DockerConnection): string {
  switch (connection.kind) {
    case 'unix':
      return `Is the Docker engine running, and may this user open ${connection.path}? Otherwise set DOCKER_HOST.`
    case 'tcp':
      return `Is a Docker engine listening on ${connection.host}:${connection.port}, and are its certificates right?`
    case 'ssh':
      return `Does "ssh ${connection.destination} docker version" work without a prompt?`
  }
}

class SshAgent extends HttpAgent {
  private readonly target: SshDestination

  constructor(target: SshDestination) {
    super({ keepAlive: true })
    this.target = target
  }

  override createConnection(): Duplex {
    return dialSsh(this.target)
  }
}
