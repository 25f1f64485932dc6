import { Duplex } from 'node:stream'
import {
  buildFrame,
  buildOffset,
  CHUNK_BYTES_MIN,
  FRAME,
  OFFSET_BYTES,
  PAYLOAD_BYTES_MAX,
  WINDOW_BYTES,
} from '../sandboxes/resumable-protocol.ts'

/** Time for the peer to close its half after this end has closed. */
const LINGER_MS = 5_000

type WriteCallback = (error?: Error | null) => void

/**
 * The gateway's end of a resumable connection, as the HTTP server of the gateway sees it. A connection outlives its pipes
 * and is destroyed after `resumeMs` without a pipe. `onGone` is called when it can be resumed no longer.
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
        if (!this.#inbox.add(payload)) return false
        this.#deliver()
        return true
      case FRAME.end:
        if (!this.#inbox.end()) return false
        this.#deliver()
        return true
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

  /** Passes received bytes to the HTTP server while it reads, and acknowledges what it has taken. */
  #deliver(): void {
    while (this.#isReading && !this.destroyed) {
      const chunk = this.#inbox.take()
      if (chunk === undefined) break
      this.#isReading = this.push(chunk)
    }
    const offset = this.#inbox.takeAck()
    if (offset !== undefined) this.#pipe?.write(buildFrame(FRAME.ack, buildOffset(offset)))
  }

  /** Moves the waiting chunk to the outbox as far as it has room. */
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

  /** Sends frames of the outbox until the pipe is full. */
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

/**
 * Creates the buffer of bytes for the peer that it has not acknowledged. Bytes are numbered by offsets, and the end of the
 * connection takes one offset after the last byte.
 */
function createOutbox() {
  const chunks: Buffer[] = []
  /** Offset of the first byte in `chunks`. After the last acknowledgement, one more than `endOffset`. */
  let firstOffset = 0
  /** Offset after the last byte in `chunks`, which is the offset of the end. */
  let endOffset = 0
  /** Offset of the next byte to send. */
  let nextOffset = 0
  let isEnded = false
  let isEndSent = false
  return {
    isFull: () => endOffset - firstOffset >= WINDOW_BYTES,
    /** Returns true when the end has been acknowledged. */
    isDone: () => firstOffset > endOffset,
    add(chunk: Buffer) {
      append(chunks, chunk)
      endOffset += chunk.length
    },
    end() {
      isEnded = true
    },
    /** Returns the next frame that has not been sent on the current pipe. */
    takeFrame(): Buffer | undefined {
      let chunkStart = firstOffset
      for (const chunk of chunks) {
        const chunkEnd = chunkStart + chunk.length
        if (nextOffset < chunkEnd) {
          const unsent = chunk.subarray(nextOffset - chunkStart)
          nextOffset = chunkEnd
          return buildFrame(FRAME.data, unsent)
        }
        chunkStart = chunkEnd
      }
      if (!isEnded || isEndSent) return undefined
      isEndSent = true
      return buildFrame(FRAME.end)
    },
    /** Drops bytes before the offset. Returns false if they have not been sent. */
    acknowledge(offset: number): boolean {
      const sentOffset = isEndSent ? nextOffset + 1 : nextOffset
      if (offset < firstOffset || offset > sentOffset) return false
      dropBytes(chunks, offset - firstOffset)
      firstOffset = offset
      return true
    },
    /** Sends again from the offset. Returns false if there is no such offset. */
    rewind(offset: number): boolean {
      const lastOffset = isEnded ? endOffset + 1 : endOffset
      if (offset < firstOffset || offset > lastOffset) return false
      nextOffset = Math.min(offset, endOffset)
      isEndSent = offset > endOffset
      return true
    },
  }
}

/**
 * Creates the buffer of received bytes that the HTTP server has not taken yet. The end takes one offset, as in the
 * outbox.
 */
function createInbox() {
  const chunks: Buffer[] = []
  let received = 0
  let consumed = 0
  let acknowledged = 0
  let isEnded = false
  return {
    received: () => received,
    consumed: () => consumed,
    /** Returns true when the end has been taken. */
    isDone: () => isEnded && consumed === received,
    /** Returns false if the peer may not send this. */
    add(chunk: Buffer): boolean {
      if (isEnded || chunk.length === 0 || received - consumed >= WINDOW_BYTES) return false
      append(chunks, chunk)
      received += chunk.length
      return true
    },
    /** Returns false if the peer has already sent the end. */
    end(): boolean {
      if (isEnded) return false
      isEnded = true
      received += 1
      return true
    },
    /** Returns the next bytes, null at the end, or undefined if there is nothing to take. */
    take(): Buffer | null | undefined {
      const chunk = chunks.shift()
      if (chunk) {
        consumed += chunk.length
        return chunk
      }
      if (!isEnded || consumed === received) return undefined
      consumed += 1
      return null
    },
    /**
     * Returns the offset to acknowledge, if a quarter of the window has been consumed since the last time, or the end.
     */
    takeAck(): number | undefined {
      const unacknowledged = consumed - acknowledged
      const isDue = isEnded ? unacknowledged > 0 : unacknowledged >= WINDOW_BYTES / 4
      if (!isDue) return undefined
      acknowledged = consumed
      return consumed
    },
  }
}

/** Appends a chunk. Small ones are merged. */
function append(chunks: Buffer[], chunk: Buffer): void {
  const last = chunks.at(-1)
  if (last && last.length + chunk.length <= CHUNK_BYTES_MIN) chunks[chunks.length - 1] = Buffer.concat([last, chunk])
  else chunks.push(chunk)
}

/** Removes bytes from the front. */
function dropBytes(chunks: Buffer[], count: number): void {
  let remaining = count
  for (let chunk = chunks[0]; chunk && remaining > 0; chunk = chunks[0]) {
    if (chunk.length > remaining) chunks[0] = chunk.subarray(remaining)
    else chunks.shift()
    remaining -= chunk.length
  }
}
