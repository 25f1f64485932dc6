import { buildFrame, CHUNK_BYTES_MIN, FRAME, WINDOW_BYTES } from '../sandboxes/resumable-protocol.ts'

/** Bytes for the peer that it has not acknowledged, with their offsets. The end takes one offset. */
export function createOutbox() {
  const chunks: Buffer[] = []
  let first = 0
  let last = 0
  let next = 0
  let isEnded = false
  let isEndSent = false
  return {
    isFull: () => last - first >= WINDOW_BYTES,
    /** True when the end has been acknowledged. */
    isDone: () => first > last,
    add(chunk: Buffer) {
      append(chunks, chunk)
      last += chunk.length
    },
    end() {
      isEnded = true
    },
    /** Returns the next frame that has not been sent on the current pipe. */
    takeFrame(): Buffer | undefined {
      let start = first
      for (const chunk of chunks) {
        const end = start + chunk.length
        if (next < end) {
          const piece = chunk.subarray(next - start)
          next = end
          return buildFrame(FRAME.data, piece)
        }
        start = end
      }
      if (!isEnded || isEndSent) return undefined
      isEndSent = true
      return buildFrame(FRAME.end)
    },
    /** Drops bytes before the offset. Returns false if they have not been sent. */
    acknowledge(offset: number): boolean {
      if (offset < first || offset > next + Number(isEndSent)) return false
      dropBytes(chunks, offset - first)
      first = offset
      return true
    },
    /** Sends again from the offset. Returns false if there is no such offset. */
    rewind(offset: number): boolean {
      if (offset < first || offset > last + Number(isEnded)) return false
      next = Math.min(offset, last)
      isEndSent = offset > last
      return true
    },
  }
}

/** Received bytes that the HTTP server has not taken yet. */
export function createInbox() {
  const chunks: Buffer[] = []
  let received = 0
  let consumed = 0
  let acknowledged = 0
  let isEnded = false
  return {
    received: () => received,
    consumed: () => consumed,
    /** True when the end has been taken. */
    isDone: () => isEnded && consumed === received,
    /** Returns false if the peer may not send this. */
    add(chunk: Buffer): boolean {
      if (isEnded || chunk.length === 0 || received - consumed >= WINDOW_BYTES) return false
      append(chunks, chunk)
      received += chunk.length
      return true
    },
    end(): boolean {
      if (isEnded) return false
      isEnded = true
      received += 1
      return true
    },
    /** Returns the next bytes, null at the end, or undefined if there is nothing to take. */
    take(): Buffer | null | undefined {
      const chunk = chunks.shift()
      if (chunk) consumed += chunk.length
      if (chunk || !isEnded || consumed === received) return chunk
      consumed += 1
      return null
    },
    /** Returns the offset that the peer should know, if there is news. */
    takeAck(): number | undefined {
      if (consumed - acknowledged < WINDOW_BYTES / 4 && !(isEnded && consumed > acknowledged)) return undefined
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
  let left = count
  for (let chunk = chunks[0]; chunk && left > 0; chunk = chunks[0]) {
    if (chunk.length > left) chunks[0] = chunk.subarray(left)
    else chunks.shift()
    left -= chunk.length
  }
}
