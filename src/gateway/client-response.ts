import type { ServerResponse } from 'node:http'
import type { JsonObject } from '../harnesses/json.ts'

/** The response to the program in the sandbox. The program may disconnect at any time; writing is then a no-op. */
export type ClientResponse = {
  isGone(): boolean
  /** Calls the listener when the client disconnects or closes its half of the connection; at once if it already has. */
  onLeaving(listener: () => void): void
  /**
   * Sets the head, which is sent with the first chunk. A stream's head is sent earlier if no chunk comes at once. The last
   * chunk of a whole answer is held until the end, so that a small answer is sent in one piece.
   */
  begin(status: number, headers: Record<string, string>, kind: 'stream' | 'whole'): void
  /** Writes a chunk. Returns a promise, which resolves when the client has read enough, if the buffer is full. */
  write(chunk: Uint8Array): Promise<void> | undefined
  end(): void
  /** Breaks the connection, so that the client notices that the answer is incomplete. */
  cut(): void
  /** Sends a complete JSON answer, or breaks the connection if another answer has begun. */
  answer(status: number, body: JsonObject, headers?: Record<string, string>): void
}

type ResponseHead = { status: number; headers: Record<string, string> }

/** Wraps a response. A client that reads nothing for `idleMs` is disconnected. */
export function wrapResponse(response: ServerResponse, idleMs: number): ClientResponse {
  const isGone = () => response.destroyed || response.closed
  let head: ResponseHead | undefined
  let isWhole = false
  /** The last chunk of a whole answer so far. */
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
      sendHead(held ? { 'content-length': String(held.length) } : {})
      response.end(held)
    },
    cut() {
      const disconnect = () => void response.destroy()
      if (isGone() || (!head && !held)) return disconnect()
      sendHead()
      const timer = setTimeout(disconnect, idleMs)
      response.write(held ?? '', () => {
        clearTimeout(timer)
        disconnect()
      })
    },
    answer(status, body, headers = {}) {
      head = undefined
      if (isGone() || response.headersSent) return void response.destroy()
      const text = JSON.stringify(body)
      const bodyHeaders = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }
      response.writeHead(status, { ...bodyHeaders, ...headers }).end(text)
    },
  }
}

function write(response: ServerResponse, chunk: Uint8Array, idleMs: number): Promise<void> | undefined {
  if (response.destroyed || response.write(chunk)) return undefined
  return new Promise((resolve) => {
    const timer = setTimeout(() => response.destroy(), idleMs)
    const onDrainOrClose = () => {
      clearTimeout(timer)
      response.off('drain', onDrainOrClose)
      response.off('close', onDrainOrClose)
      resolve()
    }
    response.once('drain', onDrainOrClose)
    response.once('close', onDrainOrClose)
  })
}
