import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Server } from 'node:net'
import { text } from 'node:stream/consumers'
import { type Port, SandboxUnavailable } from '../sandbox.ts'
import { TOOLS_PATH } from './holder.ts'

/** Makes the listening sockets where it runs, hands them over and ends. Plain JavaScript: it is not compiled. */
const LISTEN = `let open = process.argv.length - 1
for (const port of process.argv.slice(1)) {
  const server = require('node:net').createServer()
  server.listen(Number(port), '127.0.0.1', () => process.send(port, server, () => --open || process.exit(0)))
}`

/**
 * Listens on the loopback of a sandbox's own network: the sockets are made in there by a child that enters it, and are
 * then ours. `entering` begins a command in that network.
 */
export async function openPorts(entering: string[], ports: Port[]): Promise<Server[]> {
  const [program = '', ...args] = entering
  const words = [...args, process.execPath, '-e', LISTEN, ...ports.map(({ port }) => String(port))]
  const child = spawn(program, words, { env: { PATH: TOOLS_PATH }, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  const errors = child.stderr === null ? Promise.resolve('') : text(child.stderr)
  const servers = new Map<string, Server>()
  const handed = Promise.withResolvers<void>()
  child.on('message', (port, server) => {
    if (server instanceof Server) servers.set(String(port), server)
    if (servers.size === ports.length) handed.resolve()
  })
  await Promise.race([handed.promise, once(child, 'exit')])
  for (const { port, onConnection } of ports) {
    servers.get(String(port))?.on('connection', onConnection)
    servers.get(String(port))?.on('error', () => {}) // the sandbox is gone
  }
  if (servers.size === ports.length) return [...servers.values()]
  for (const server of servers.values()) server.close()
  throw new SandboxUnavailable(`The ports could not be opened in the sandbox: ${(await errors).trim()}`)
}
