import type { Duplex } from 'node:stream'
import { buildFrame, createFrameReader, FRAME, ID_BYTES, OFFSET_BYTES } from '../sandboxes/resumable-protocol.ts'
import { endPipe, ResumableConnection } from './resumable-connection.ts'

export type ResumableOptions = {
  /** Maximum time that a connection waits for another pipe. */
  resumeMs: number
  /** Maximum number of connections of one owner. It can have twice as many pipes. */
  connectionsMax: number
}

/** The resumable connections of a gateway, by the id of their owner. See `resumable-protocol.ts`. */
export type ResumableConnections = {
  /** Returns false if the owner has the maximum number of pipes. */
  mayAddPipe(owner: string): boolean
  /** Reads frames from a pipe. `serve` receives each new connection and returns false if there are too many. */
  addPipe(owner: string, pipe: Duplex, serve: (connection: Duplex) => boolean): void
  /** Destroys all connections of an owner. */
  forget(owner: string): void
  closeAll(): void
}

/** Maximum time until a pipe names its connection. */
const HELLO_MS = 20_000

type Owner = { connections: Map<string, ResumableConnection>; pipes: Set<Duplex> }

export function openResumableConnections(options: ResumableOptions): ResumableConnections {
  const owners = new Map<string, Owner>()
  const findOrAddOwner = (id: string): Owner => {
    const owner = owners.get(id) ?? { connections: new Map(), pipes: new Set() }
    owners.set(id, owner)
    return owner
  }
  const deleteUnusedOwner = (id: string) => {
    const owner = owners.get(id)
    if (owner && owner.connections.size + owner.pipes.size === 0) owners.delete(id)
  }
  return {
    mayAddPipe: (id) => (owners.get(id)?.pipes.size ?? 0) < 2 * options.connectionsMax,
    addPipe(id, pipe, serve) {
      if (pipe.destroyed) return // A listener for its close event would never be called.
      const owner = findOrAddOwner(id)
      owner.pipes.add(pipe)
      const onGone = () => deleteUnusedOwner(id)
      pipe.once('close', () => {
        owner.pipes.delete(pipe)
        onGone()
      })
      readPipe(pipe, (hello) => resolveConnection(owner, hello, options, serve, onGone))
    },
    forget(id) {
      for (const connection of owners.get(id)?.connections.values() ?? []) connection.abandon()
    },
    closeAll() {
      for (const { connections, pipes } of owners.values()) {
        for (const connection of connections.values()) connection.abandon()
        for (const pipe of pipes) pipe.destroy()
      }
    },
  }
}

/** The first frame of a pipe: its connection, and the number of bytes that the peer has received of it. */
type Hello = { id: string; isNew: boolean; received: number }

function parseHello(type: number, payload: Buffer): Hello | undefined {
  if (type !== FRAME.hello || payload.length !== ID_BYTES + 1 + OFFSET_BYTES) return undefined
  return {
    id: payload.toString('hex', 0, ID_BYTES),
    isNew: payload.readUInt8(ID_BYTES) === 1,
    received: payload.readUIntBE(ID_BYTES + 1, OFFSET_BYTES),
  }
}

/** Returns the connection of a pipe, which is opened if it is new, or the type of the frame that refuses it. */
function resolveConnection(
  { connections }: Owner,
  { id, isNew }: Hello,
  { resumeMs, connectionsMax }: ResumableOptions,
  serve: (connection: Duplex) => boolean,
  onGone: () => void,
): ResumableConnection | number {
  const existing = connections.get(id)
  if (existing) return existing
  if (!isNew) return FRAME.unknown
  if (connections.size >= connectionsMax) return FRAME.unavailable
  const connection = new ResumableConnection(resumeMs, () => {
    connections.delete(id)
    onGone()
  })
  connections.set(id, connection)
  if (serve(connection)) return connection
  connection.abandon()
  return FRAME.unavailable
}

/** Reads a pipe: first the frame that names its connection, then the frames of that connection. */
function readPipe(pipe: Duplex, resolve: (hello: Hello) => ResumableConnection | number): void {
  let connection: ResumableConnection | undefined
  let isRefused = false
  const timer = setTimeout(() => pipe.destroy(), HELLO_MS)
  /** Handles the first frame. Returns false after a protocol error. */
  const takeHello = (type: number, payload: Buffer): boolean => {
    const hello = parseHello(type, payload)
    if (!hello) return false
    clearTimeout(timer)
    const resolved = resolve(hello)
    if (typeof resolved === 'number') {
      isRefused = true
      endPipe(pipe, buildFrame(resolved))
      return true
    }
    connection = resolved
    return connection.attach(pipe, hello.received)
  }
  const read = createFrameReader((type, payload) => {
    if (pipe.destroyed || isRefused) return true
    return connection ? connection.receive(pipe, type, payload) : takeHello(type, payload)
  })
  pipe.on('data', (chunk: Buffer) => {
    if (pipe.destroyed || read(chunk)) return
    connection?.abandon()
    pipe.destroy()
  })
  pipe.on('end', () => pipe.destroy())
  pipe.on('error', () => pipe.destroy())
  pipe.once('close', () => {
    clearTimeout(timer)
    connection?.detach(pipe)
  })
}
