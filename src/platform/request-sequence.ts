import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'

/** Maximum number of requests that wait on a connection for the answer to the one before them. */
export const PIPELINED_MAX = 8

/**
 * Handles the requests of a connection one after the other. Node would handle all that have arrived at once and keep the
 * answers in memory until the client reads them. A client that sends more requests ahead is disconnected.
 */
export function handleInSequence(handle: RequestListener): RequestListener {
  const waiting = new WeakMap<Socket, (() => void)[]>()
  return (incoming, outgoing) => {
    const { socket } = incoming
    const start = () => {
      outgoing.once('close', () => startNext(waiting, socket))
      handle(incoming, outgoing)
    }
    const ahead = waiting.get(socket)
    if (ahead === undefined) {
      waiting.set(socket, [])
      start()
    } else if (ahead.length < PIPELINED_MAX) ahead.push(start)
    else socket.destroy()
  }
}

function startNext(waiting: WeakMap<Socket, (() => void)[]>, socket: Socket): void {
  const next = socket.destroyed ? undefined : waiting.get(socket)?.shift()
  if (next) next()
  else waiting.delete(socket)
}
