import type { ServerResponse } from 'node:http'
import type { JsonObject } from './wire.ts'

/** The program in the sandbox, as an answer sees it. It may leave at any moment; writing to it is then harmless. */
export type Client = {
  isGone(): boolean
  /** Called when it leaves, or closes its half of the connection, which often is the same. At once when it has left. */
  onLeaving(listener: () => void): void
  /**
   * Sent with the first piece. That a stream has begun is told before it, if it does not come at once. Of any other
   * answer the last piece is held until the end, so that a small one goes out whole.
   */
  begin(status: number, headers: Record<string, string>, kind: 'stream' | 'whole'): void
  /** Waits while the client reads slower than the provider writes. */
  write(chunk: Uint8Array): Promise<void> | undefined
  end(): void
  /** The answer breaks off, visibly. */
  cut(): void
  answer(status: number, body: JsonObject, headers?: Record<string, string>): void
}

type Head = { status: number; headers: Record<string, string> }

/** A client that reads nothing for so long has left. */
export function clientOf(response: ServerResponse, idleMs: number): Client {
  const isGone = () => response.destroyed || response.closed
  let head: Head | undefined
  let isWhole = false
  let held: Uint8Array | undefined
  const sendHead = (more: Record<string, string> = {}) => {
    if (head && !isGone()) response.writeHead(head.status, { ...head.headers, ...more })
    head = undefined
  }
  return {
    isGone,
    onLeaving(listener) {
      if (isGone()) return listener()
      const { socket } = response
      socket?.once('end', listener)
      response.once('close', () => {
        socket?.off('end', listener)
        listener()
      })
    },
    begin(status, headers, kind) {
      head = { status, headers }
      isWhole = kind === 'whole'
      if (isWhole) return
      setImmediate(() => {
        if (!head) return
        sendHead()
        response.flushHeaders()
      })
    },
    write(chunk) {
      const ready = isWhole ? held : chunk
      if (isWhole) held = chunk
      if (!ready) return
      sendHead()
      return write(response, ready, idleMs)
    },
    end() {
      sendHead(held && { 'content-length': String(held.length) })
      response.end(held)
    },
    cut() {
      const leave = () => void response.destroy()
      if (isGone() || (!head && !held)) return leave()
      sendHead()
      const timer = setTimeout(leave, idleMs)
      response.write(held ?? '', () => {
        clearTimeout(timer)
        leave()
      })
    },
    answer(status, body, headers = {}) {
      head = undefined
      if (isGone() || response.headersSent) return void response.destroy()
      const text = JSON.stringify(body)
      const own = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }
      response.writeHead(status, { ...own, ...headers }).end(text)
    },
  }
}

function write(response: ServerResponse, chunk: Uint8Array, idleMs: number): Promise<void> | undefined {
  if (response.destroyed || response.write(chunk)) return undefined
  return new Promise((resolve) => {
    const timer = setTimeout(() => response.destroy(), idleMs)
    const go = () => {
      clearTimeout(timer)
      response.off('drain', go)
      response.off('close', go)
      resolve()
    }
    response.once('drain', go)
    response.once('close', go)
  })
}
