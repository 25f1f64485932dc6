import { Duplex } from 'node:stream'
import { buildFrame, buildOffset, FRAME, OFFSET_BYTES, PAYLOAD_BYTES_MAX } from '../sandboxes/resumable-protocol.ts'
import { createInbox, createOutbox } from './resumable-buffers.ts'

const LINGER_MS = 5_000

type WriteCallback = (error?: Error | null) => void

/**
 * The gateway's end of a resumable connection, as its HTTP server sees it. It outlives its pipes: without one it is
 * destroyed after `resumeMs`. `onGone` is called when it can be resumed no longer.
 */
export class ResumableConnection extends Duplex {
  readonly #resumeMs: number
  readonly #onGone: () => void
  readonly #outbox = createOutbox()
  readonly #inbox = createInbox()
  #pipe: Duplex | undefined
  #timer: NodeJS.Timeout | undefined
  /** The part of a chunk for which the outbox has no room. */
  #waiting: { chunk: Buffer; done: WriteCallback } | undefined
  #onEndAcknowledged: WriteCallback | undefined
  #isReading = false

  constructor(resumeMs: number, onGone: () => void) {
    super({ allowHalfOpen: true })
    this.#resumeMs = resumeMs
    this.#onGone = onGone
    this.on('error', () => {})
  }

  /** Moves the connection to a pipe whose peer has received this much. Returns false if that is impossible. */
  attach(pipe: Duplex, peerReceived: number): boolean {
    if (!this.#outbox.rewind(peerReceived)) return false
    this.#pipe?.destroy()
    clearTimeout(this.#timer)
    this.#pipe = pipe
    pipe.on('drain', () => this.#flush())
    pipe.write(buildFrame(FRAME.welcome, buildOffset(this.#inbox.received())))
    pipe.write(buildFrame(FRAME.ack, buildOffset(this.#inbox.consumed())))
    if (this.destroyed) this.#leave()
    else this.#flush()
    return true
  }

  /** Waits for another pipe if this was the current one. */
  detach(pipe: Duplex): void {
    if (pipe !== this.#pipe) return
    this.#pipe = undefined
    this.#timer = setTimeout(() => this.abandon(), this.#resumeMs)
  }

  /** Destroys the connection without waiting for a pipe. Idempotent. */
  abandon(): void {
    clearTimeout(this.#timer)
    this.destroy()
    this.#onGone()
  }

  /** Handles a frame of a pipe. Returns false after a protocol error. Frames of a replaced pipe are ignored. */
  receive(pipe: Duplex, type: number, payload: Buffer): boolean {
    if (pipe !== this.#pipe) return true
    switch (type) {
      case FRAME.data:
        return this.#inbox.add(payload) && this.#deliver()
      case FRAME.end:
        return this.#inbox.end() && this.#deliver()
      case FRAME.ack:
        return this.#acknowledge(payload)
      case FRAME.reset:
        this.#pipe = undefined
        endPipe(pipe)
        this.abandon()
        return true
      default:
        return false
    }
  }

  #acknowledge(payload: Buffer): boolean {
    if (payload.length !== OFFSET_BYTES) return false
    if (!this.#outbox.acknowledge(payload.readUIntBE(0, OFFSET_BYTES))) return false
    this.#fill()
    if (this.#outbox.isDone()) this.#onEndAcknowledged?.()
    return true
  }

  #deliver(): true {
    while (this.#isReading && !this.destroyed) {
      const chunk = this.#inbox.take()
      if (chunk === undefined) break
      this.#isReading = this.push(chunk)
    }
    const offset = this.#inbox.takeAck()
    if (offset !== undefined) this.#pipe?.write(buildFrame(FRAME.ack, buildOffset(offset)))
    return true
  }

  #fill(): void {
    while (this.#waiting && !this.#outbox.isFull()) {
      const { chunk, done } = this.#waiting
      this.#outbox.add(chunk.subarray(0, PAYLOAD_BYTES_MAX))
      const rest = chunk.subarray(PAYLOAD_BYTES_MAX)
      this.#waiting = rest.length > 0 ? { chunk: rest, done } : undefined
      if (rest.length === 0) done()
    }
    this.#flush()
  }

  #flush(): void {
    while (this.#pipe && !this.#pipe.writableNeedDrain) {
      const frame = this.#outbox.takeFrame()
      if (!frame) return
      this.#pipe.write(frame)
    }
  }

  /** Sends everything that is left, which the window bounds, and ends the pipe. */
  #leave(): void {
    const pipe = this.#pipe
    if (!pipe) return
    this.#pipe = undefined
    for (let frame = this.#outbox.takeFrame(); frame; frame = this.#outbox.takeFrame()) pipe.write(frame)
    endPipe(pipe, this.#outbox.isDone() && this.#inbox.isDone() ? undefined : buildFrame(FRAME.reset))
    this.#onGone()
  }

  override _read(): void {
    this.#isReading = true
    this.#deliver()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: WriteCallback): void {
    this.#waiting = { chunk, done }
    this.#fill()
  }

  override _writev(chunks: { chunk: Buffer }[], done: WriteCallback): void {
    this.#waiting = { chunk: Buffer.concat(chunks.map(({ chunk }) => chunk)), done }
    this.#fill()
  }

  override _final(done: WriteCallback): void {
    this.#onEndAcknowledged = done
    this.#outbox.end()
    this.#flush()
  }

  override _destroy(error: Error | null, done: WriteCallback): void {
    // If there is no pipe, the peer receives the reset when it resumes.
    this.#leave()
    done(error)
  }

  /** Ends the connection, also if the client does not close its half. The HTTP server calls it after the last answer. */
  destroySoon(): void {
    this.end()
    const timer = setTimeout(() => this.destroy(), LINGER_MS)
    this.once('close', () => clearTimeout(timer))
  }
}

/** Ends a pipe, and closes it if the peer does not. */
export function endPipe(pipe: Duplex, frame?: Buffer): void {
  const timer = setTimeout(() => pipe.destroy(), LINGER_MS)
  pipe.once('close', () => clearTimeout(timer))
  pipe.end(frame)
}
