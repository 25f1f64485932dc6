import { spawn } from 'node:child_process'
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { Duplex } from 'node:stream'
import { SandboxUnavailable } from '../sandbox.ts'

type Destination = { destination: string; port: number | null }

/** Options of ssh: no prompts, and the destination is never parsed as an option. */
export function sshWords({ destination, port }: Destination): string[] {
  return [
    ...['-o', 'BatchMode=yes', '-o', 'ConnectTimeout=30', '-T'],
    ...(port === null ? [] : ['-p', String(port)]),
    ...['--', destination, 'docker', 'system', 'dial-stdio'],
  ]
}

/** Opens a connection to the engine over the standard input and output of an ssh process. */
function dialSsh(destination: Destination): Duplex {
  const child = spawn('ssh', sshWords(destination), { stdio: ['pipe', 'pipe', 'ignore'] })
  const link = new SshLink({
    read: () => void child.stdout.resume(),
    write: (chunk, _encoding, done) => void child.stdin.write(chunk, done),
    final: (done) => void child.stdin.end(done),
    destroy: (error, done) => {
      child.kill()
      done(error)
    },
  })
  child.stdin.on('error', (error) => link.destroy(error))
  child.stdout.on('data', (chunk) => link.push(chunk) || child.stdout.pause())
  child.stdout.on('end', () => link.push(null))
  child.once('error', (error) => link.destroy(error))
  return link
}

/** An agent sets these on what it keeps; they mean nothing for two pipes. */
class SshLink extends Duplex {
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

/** The texts of PEM files, as a stored credential holds them. */
export type TlsSecret = { ca: string; cert: string; key: string }

/** Address of a Docker engine. */
export type DockerConnection =
  | { kind: 'unix'; path: string }
  | { kind: 'tcp'; host: string; port: number; tls: TlsSecret | null }
  /** Through `docker system dial-stdio` on the machine that ssh reaches, with whatever keys ssh finds. */
  | ({ kind: 'ssh' } & Destination)

/** Options of node:http that reach the engine. Each request adds its method and path. */
export type DockerRoute = { agent: HttpAgent; secure: boolean; socketPath?: string; host?: string; port?: number }

const DEFAULT_SOCKET = '/var/run/docker.sock'
const PLAIN_PORT = 2375
const TLS_PORT = 2376

/** Reads a value as of DOCKER_HOST. None: the socket of an ordinary installation. */
export function parseDockerHost(text: string | undefined, tls: TlsSecret | null = null): DockerConnection {
  if (!text) return { kind: 'unix', path: DEFAULT_SOCKET }
  if (text.startsWith('unix://')) return { kind: 'unix', path: text.slice('unix://'.length) }
  const found = URL.canParse(text) ? fromUrl(new URL(text), tls) : undefined
  if (found) return found
  throw new SandboxUnavailable(
    `${JSON.stringify(text)} is no address of a Docker engine. Use unix:///path, tcp://host:port or ssh://user@host.`,
  )
}

function fromUrl(
  { protocol, hostname, username, port: text }: URL,
  tls: TlsSecret | null,
): DockerConnection | undefined {
  const port = text === '' ? null : Number(text)
  if (hostname === '') return undefined
  if (protocol === 'tcp:') {
    return { kind: 'tcp', host: hostname, port: port ?? (tls ? TLS_PORT : PLAIN_PORT), tls }
  }
  if (protocol !== 'ssh:') return undefined
  return { kind: 'ssh', destination: username ? `${username}@${hostname}` : hostname, port }
}

/** Connections are kept: making one for each request is what a command-line client pays. */
export function routeTo(connection: DockerConnection): DockerRoute {
  if (connection.kind === 'unix') {
    return { agent: new HttpAgent({ keepAlive: true }), secure: false, socketPath: connection.path }
  }
  if (connection.kind === 'ssh') return { agent: new SshAgent(connection), secure: false, host: 'docker' }
  const { host, port, tls } = connection
  if (tls === null) return { agent: new HttpAgent({ keepAlive: true }), secure: false, host, port }
  return { agent: new HttpsAgent({ keepAlive: true, ...tls }), secure: true, host, port }
}

/** Returns what to check when the engine does not answer. */
export function adviceFor(connection: DockerConnection): string {
  switch (connection.kind) {
    case 'unix':
      return `Is the Docker engine running, and may this user open ${connection.path}? Otherwise set DOCKER_HOST.`
    case 'tcp':
      return `Is a Docker engine listening on ${connection.host}:${connection.port}, and are its certificates right?`
    case 'ssh':
      return `Does "ssh ${connection.destination} docker version" work without a question?`
  }
}

class SshAgent extends HttpAgent {
  private readonly target: Destination

  constructor(target: Destination) {
    super({ keepAlive: true })
    this.target = target
  }

  override createConnection(): Duplex {
    return dialSsh(this.target)
  }
}
