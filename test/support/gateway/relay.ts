import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildRelayProgram } from '../../../src/sandboxes/kernel/relay-program.ts'

export type RelayProcess = AsyncDisposable & {
  /** Port on the loopback, which stands for that of a sandbox. */
  port: number
  /** Resident memory of the relay. */
  memoryMb(): Promise<number>
  /** Listens on the relay's socket as a worker does. Disposing it is the death of the worker. */
  listen(onConnection: (socket: Socket) => void): Promise<AsyncDisposable>
}

/** Runs the relay of a sandbox as its own process. */
export async function startRelayProcess({ resumeMs = 60_000, kind = 'resumable:' } = {}): Promise<RelayProcess> {
  await using undo = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'relay-'))
  undo.defer(() => rm(folder, { recursive: true, force: true }))
  const port = await findFreePort()
  const program = buildRelayProgram({ folder, resumeMs })
  const child = spawn(process.execPath, ['-e', program, `${kind}${port}`], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  undo.defer(async () => {
    child.kill('SIGKILL')
    await exited
  })
  await once(child.stdout, 'data')
  const running = undo.move()
  return {
    port,
    async memoryMb() {
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8')
      return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024
    },
    listen: (onConnection) => listenAsWorker(join(folder, String(port)), onConnection),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

async function listenAsWorker(path: string, onConnection: (socket: Socket) => void): Promise<AsyncDisposable> {
  // The socket of a killed worker remains.
  await rm(path, { force: true })
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: false }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    onConnection(socket)
  }).listen(path)
  await once(server, 'listening')
  return {
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await closeServer(server)
    },
  }
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  await closeServer(server)
  if (address === null || typeof address === 'string') throw new Error('The server has no port')
  return address.port
}

const closeServer = (server: Server): Promise<void> => new Promise((resolve) => server.close(() => resolve()))
