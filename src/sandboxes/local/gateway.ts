import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Server } from 'node:net'
import { text } from 'node:stream/consumers'
import { type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'

const ENTER = 'nsenter'

/** Makes the listening socket where it runs, hands it over and ends. Plain JavaScript: it is not compiled. */
const LISTEN = `const server = require('node:net').createServer()
server.listen(Number(process.argv[1]), '127.0.0.1', () => process.send('listening', server, () => process.exit(0)))`

/**
 * Listens on the loopback of a sandbox's own network, which has nothing else: the socket is made in there by a child that
 * enters it, and is then ours.
 */
export async function openGateway(
  pid: number,
  { port, onConnection }: NonNullable<SandboxSpec['gateway']>,
  rootless: boolean,
): Promise<Server> {
  const user = rootless ? ['--user', '--preserve-credentials'] : []
  const enter = ['-t', String(pid), ...user, '--net', process.execPath, '-e', LISTEN, String(port)]
  const child = spawn(ENTER, enter, { env: {}, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  const errors = child.stderr === null ? Promise.resolve('') : text(child.stderr)
  const handed = once(child, 'message').then(([, server]) => server)
  const failed = once(child, 'exit').then(async () => undefined)
  const server: unknown = await Promise.race([handed, failed])
  if (server instanceof Server) {
    server.on('connection', onConnection)
    server.on('error', () => {}) // the sandbox is gone
    return server
  }
  throw new SandboxUnavailable(`The gateway could not listen in the sandbox: ${(await errors).trim()}`)
}
