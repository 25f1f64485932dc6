import { createHash } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { listenForPort } from '../kernel/ports.ts'
import { type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import { type Cluster, HELPER } from './cluster.ts'
import { collectErrors, type ExecStream, openExec } from './exec-stream.ts'
import { RECORDER_FOLDER } from './recorder.ts'

export type PodRelay = {
  close(): Promise<void>
  /** Closes the ports in this process only, so that another one can open them again. */
  leave(): void
}

/** A message: connection (4 bytes), kind (1 byte), length (4 bytes), then that many bytes. */
const HEADER_BYTES = 9
/** Connections that a sandbox may have open at the same time. */
const CONNECTIONS_MAX = 500
const MESSAGE_KIND = { open: 0, data: 1, end: 2, close: 3 } as const

/**
 * Program of the helper container, which shares the network of the sandbox. It carries all connections over its standard
 * input and output. Plain JavaScript, not compiled. Each argument is a port to listen on, or, in an adoptable sandbox,
 * the path of a socket, named after the port, to which the relay that outlives this program connects.
 */
export const POD_RELAY_PROGRAM = `const net = require('node:net')
const { basename } = require('node:path')
const { renameSync } = require('node:fs')
const CONNECTIONS_MAX = ${CONNECTIONS_MAX}, UNREAD_MAX_BYTES = 48 * 1024 * 1024
const addresses = process.argv.slice(1)
const sockets = new Map()
let lastId = 0, openAddresses = 0, rest = Buffer.alloc(0)
const send = (id, kind, data = Buffer.alloc(0)) => {
  const header = Buffer.alloc(${HEADER_BYTES})
  header.writeUInt32BE(id, 0)
  header.writeUInt8(kind, 4)
  header.writeUInt32BE(data.length, 5)
  if (process.stdout.write(Buffer.concat([header, data]))) return
  for (const socket of sockets.values()) socket.pause()
}
process.stdout.on('drain', () => { for (const socket of sockets.values()) socket.resume() })
const listen = (server, address, onOpen) => {
  if (!address.startsWith('/')) return server.listen(Number(address), '127.0.0.1', onOpen)
  const draft = address + '.' + process.pid
  server.listen(draft, () => { renameSync(draft, address); onOpen() })
}
const onOpen = () => {
  openAddresses += 1
  if (openAddresses === addresses.length) process.stderr.write('open')
}
for (const address of addresses) {
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    lastId += 1
    const id = lastId
    const name = Buffer.alloc(2)
    name.writeUInt16BE(Number(basename(address)))
    sockets.set(id, socket)
    socket.on('drain', readUnlessFull)
    send(id, ${MESSAGE_KIND.open}, name)
    socket.on('data', (data) => send(id, ${MESSAGE_KIND.data}, data)).on('end', () => send(id, ${MESSAGE_KIND.end})).on('error', () => {})
    socket.on('close', () => { sockets.delete(id); send(id, ${MESSAGE_KIND.close}); readUnlessFull() })
  })
  server.maxConnections = CONNECTIONS_MAX
  listen(server, address, onOpen)
}
// An agent that does not read must not use up the memory. It delays only its own connections. The limit is more than all
// connections hold before they emit 'drain'.
const readUnlessFull = () => {
  let unreadBytes = 0
  for (const socket of sockets.values()) unreadBytes += socket.writableLength
  if (unreadBytes > UNREAD_MAX_BYTES) process.stdin.pause()
  else process.stdin.resume()
}
process.stdin.on('data', (chunk) => {
  rest = Buffer.concat([rest, chunk])
  while (rest.length >= ${HEADER_BYTES} && rest.length >= ${HEADER_BYTES} + rest.readUInt32BE(5)) {
    const length = rest.readUInt32BE(5), socket = sockets.get(rest.readUInt32BE(0)), kind = rest[4]
    const data = rest.subarray(${HEADER_BYTES}, ${HEADER_BYTES} + length)
    rest = rest.subarray(${HEADER_BYTES} + length)
    if (kind === ${MESSAGE_KIND.data}) socket?.write(data)
    if (kind === ${MESSAGE_KIND.end}) socket?.end()
    if (kind === ${MESSAGE_KIND.close}) socket?.destroy()
  }
  readUnlessFull()
}).on('end', () => process.exit())`

const OPEN_TIMEOUT_MS = 60_000
const MESSAGE_MAX_BYTES = 1024 * 1024

/** Opens the ports of a sandbox. Returns undefined if it has none. */
export async function openRelay(
  cluster: Cluster,
  pod: string,
  { id, ports, isAdoptable }: Pick<SandboxSpec, 'id' | 'ports' | 'isAdoptable'>,
): Promise<PodRelay | undefined> {
  if (ports.length === 0) return undefined
  // The path of a socket is limited to about 100 bytes.
  const folder = join(cluster.folder, createHash('sha256').update(id).digest('hex').slice(0, 12))
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const handlers = ports.map((port) => ({
    ...port,
    onConnection: isAdoptable ? (port.onPipe ?? port.onConnection) : port.onConnection,
  }))
  const servers = await Promise.all(handlers.map((port) => listenForPort(folder, port)))
  let stream: ExecStream | undefined
  const leave = (): void => {
    stream?.close()
    for (const server of servers) server.close()
  }
  const close = async (): Promise<void> => {
    leave()
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const command = [
      'node',
      '-e',
      POD_RELAY_PROGRAM,
      ...ports.map(({ port }) => `${isAdoptable ? `${RECORDER_FOLDER}/` : ''}${port}`),
    ]
    const target = { namespace: cluster.namespace, pod, container: HELPER }
    stream = await openExec(cluster.kubernetes, target, command)
    await waitUntilOpen(stream)
    void carryConnections(stream, (port) => connect({ path: join(folder, String(port)), allowHalfOpen: true })).catch(
      (error: unknown) => cluster.log.debug({ error, sandbox: id }, 'relay ended'),
    )
    return { close, leave }
  } catch (error) {
    await close()
    throw error
  }
}

async function waitUntilOpen(stream: ExecStream): Promise<void> {
  const errors = collectErrors(stream)
  const opened = Promise.withResolvers<void>()
  const timer = setTimeout(() => opened.reject(toStartError(errors())), OPEN_TIMEOUT_MS)
  stream.onErrors((chunk) => {
    if (chunk.includes('open')) opened.resolve()
    else opened.reject(toStartError(chunk.toString()))
  })
  stream.code.then((code) => opened.reject(toStartError(`code ${code}`)), opened.reject)
  await opened.promise.finally(() => clearTimeout(timer))
}

const toStartError = (reason: string): SandboxUnavailable =>
  new SandboxUnavailable(`The relay of a sandbox's ports did not start: ${reason}`)

/** Carries all connections until the stream ends. Nothing is received while a connection cannot take more. */
async function carryConnections(stream: ExecStream, open: (port: number) => Socket): Promise<void> {
  const sockets = new Map<number, Socket>()
  try {
    for await (const { id, kind, data } of parseMessages(stream.output)) {
      if (kind === MESSAGE_KIND.open && sockets.size < CONNECTIONS_MAX) {
        const socket = forward(stream, id, open(data.readUInt16BE(0)))
        sockets.set(
          id,
          socket.once('close', () => sockets.delete(id)),
        )
      }
      await deliver(sockets.get(id), kind, data)
    }
  } finally {
    for (const socket of sockets.values()) socket.destroy()
  }
}

async function deliver(socket: Socket | undefined, kind: number, data: Buffer): Promise<void> {
  if (kind === MESSAGE_KIND.data && socket?.write(data) === false) await waitForDrain(socket)
  if (kind === MESSAGE_KIND.end) socket?.end()
  if (kind === MESSAGE_KIND.close) socket?.destroy()
}

function forward(stream: ExecStream, id: number, socket: Socket): Socket {
  const send = (kind: number, data = Buffer.alloc(0)): Promise<void> => {
    const header = Buffer.alloc(HEADER_BYTES)
    header.writeUInt32BE(id, 0)
    header.writeUInt8(kind, 4)
    header.writeUInt32BE(data.length, 5)
    return stream.write(Buffer.concat([header, data]))
  }
  const pump = async (): Promise<void> => {
    for await (const chunk of socket.iterator({ destroyOnReturn: false })) await send(MESSAGE_KIND.data, chunk)
    await send(MESSAGE_KIND.end)
  }
  socket.on('error', () => {}).once('close', () => void send(MESSAGE_KIND.close).catch(() => {}))
  pump().catch(() => socket.destroy())
  return socket
}

const waitForDrain = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    socket.once('drain', resolve).once('close', resolve)
  })

type RelayMessage = { id: number; kind: number; data: Buffer }

async function* parseMessages(output: AsyncIterable<Buffer>): AsyncGenerator<RelayMessage> {
  let rest = Buffer.alloc(0)
  for await (const chunk of output) {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= HEADER_BYTES) {
      const length = rest.readUInt32BE(5)
      if (length > MESSAGE_MAX_BYTES) throw new SandboxUnavailable('The relay of a sandbox sent an invalid message.')
      if (rest.length < HEADER_BYTES + length) break
      const data = rest.subarray(HEADER_BYTES, HEADER_BYTES + length)
      yield { id: rest.readUInt32BE(0), kind: rest.readUInt8(4), data }
      rest = rest.subarray(HEADER_BYTES + length)
    }
  }
}
