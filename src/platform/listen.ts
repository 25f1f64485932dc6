import { createServer, type RequestListener, type Server } from 'node:http'
import type { Socket } from 'node:net'

/** Time after which a connection is closed if its client has read nothing of a waiting answer. */
const UNREAD_MS = 60_000

/**
 * Time for which an idle connection stays open beyond the timeout that the `Keep-Alive` header announces. A request that
 * arrived while the event loop was busy would otherwise be reset: timers expire before sockets are read.
 */
const KEEP_ALIVE_BUFFER_MS = 15_000

type ListeningServer = { url: string; stop(graceMs: number): Promise<void> }

/** Starts accepting requests. `stop` waits up to `graceMs` for requests in progress. */
export async function listen(
  handle: RequestListener,
  host: string,
  port: number,
  unreadMs = UNREAD_MS,
): Promise<ListeningServer> {
  const handleWithTimeout: RequestListener = (incoming, outgoing) => {
    outgoing.setTimeout(unreadMs, () => endIfUnread(incoming.socket))
    handle(incoming, outgoing)
  }
  const server = createServer(
    { headersTimeout: 20_000, keepAliveTimeoutBuffer: KEEP_ALIVE_BUFFER_MS },
    handleInSequence(handleWithTimeout),
  )
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(toListenError(error, host, port)))
    server.listen(port, host, resolve)
  })
  return { url: toListeningUrl(server), stop: (graceMs) => stop(server, graceMs) }
}

/** Closes an inactive connection if its client leaves an answer unread. Otherwise it may be waiting for a slow handler. */
function endIfUnread(socket: Socket): void {
  if (socket.writableLength > 0) socket.destroy()
}

/** Returns the URL of a server that listens on a TCP port, which may have been chosen by the system. */
export function toListeningUrl(server: Server): string {
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('The server is not listening on a TCP port.')
  return `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`
}

function toListenError(error: NodeJS.ErrnoException, host: string, port: number): Error {
  if (error.code === 'EADDRINUSE')
    return new Error(`Port ${port} on ${host} is in use. Choose another with --port or ASSAY_PORT.`)
  if (error.code === 'EADDRNOTAVAIL') return new Error(`This machine has no address ${host}. Set --host or ASSAY_HOST.`)
  if (error.code === 'EACCES')
    return new Error(`Port ${port} needs elevated privileges. Choose one above 1023 with --port or ASSAY_PORT.`)
  return error
}

function stop(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearTimeout(timer)
      resolve()
    })
    server.closeIdleConnections()
  })
}

/** Maximum number of requests that wait on a connection for the answer to the one before them. */
export const PIPELINED_MAX = 8

/**
 * Handles the requests of a connection one after the other. Node would handle all that have arrived at once and keep the
 * answers in memory until the client reads them. A client with more than `PIPELINED_MAX` waiting requests is disconnected.
 */
export function handleInSequence(handle: RequestListener): RequestListener {
  const queues: RequestQueues = new WeakMap()
  return (incoming, outgoing) => {
    const { socket } = incoming
    const start = () => {
      outgoing.once('close', () => startNext(queues, socket))
      handle(incoming, outgoing)
    }
    const queue = queues.get(socket)
    if (queue === undefined) {
      queues.set(socket, [])
      start()
    } else if (queue.length < PIPELINED_MAX) queue.push(start)
    else socket.destroy()
  }
}

/** Starters of the waiting requests, for each connection with a request in progress. */
type RequestQueues = WeakMap<Socket, (() => void)[]>

function startNext(queues: RequestQueues, socket: Socket): void {
  const next = socket.destroyed ? undefined : queues.get(socket)?.shift()
  if (next) next()
  else queues.delete(socket)
}
