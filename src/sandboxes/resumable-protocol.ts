/**
 * The relay of a sandbox (client) and the gateway (server) use this protocol to keep the connections of an agent open when
 * another worker takes the place of the one between them. The relay continues each connection over a new pipe.
 *
 * A pipe is a byte stream from the relay through a worker to the gateway. It consists of frames: type (1 byte), length of
 * the payload (4 bytes), payload. Offsets have 6 bytes; all numbers are big-endian.
 *
 * | frame       | payload                              | sent by | meaning |
 * |-------------|--------------------------------------|---------|---------|
 * | hello       | id (16 bytes), isNew (1), received   | relay   | first frame of a pipe: opens or resumes a connection |
 * | welcome     | received                             | gateway | the pipe now carries the connection |
 * | unknown     |                                      | gateway | no such connection; another gateway may have it |
 * | unavailable |                                      | both    | the worker reaches no gateway, or there are too many connections |
 * | data        | 1 to `PAYLOAD_BYTES_MAX` bytes       | both    | the next bytes of the connection |
 * | ack         | consumed                             | both    | bytes before this offset need not be kept |
 * | end         |                                      | both    | half-close; takes one offset, like a byte, so that it is acknowledged too |
 * | reset       |                                      | both    | the other end of the connection is gone |
 *
 * `received` is the offset of the next byte that the sender of the frame expects; the other side sends again from there.
 * Each side keeps bytes that are not acknowledged, at most `WINDOW_BYTES`, and then stops sending. A byte is acknowledged when the
 * program behind the connection has taken it, so a program that does not read stops its peer and never a pipe.
 *
 * The relay sends nothing before `welcome`, so that a gateway which is lost earlier has seen no byte. A pipe that ends before
 * `reset` or both `end`s is broken. Both sides keep its connection for `RESUME_MS`. An id belongs to the grant that opened
 * it. A second pipe of a connection replaces the first. After a protocol error the gateway closes pipe and connection.
 */
export const FRAME = { hello: 1, welcome: 2, unknown: 3, unavailable: 4, data: 5, ack: 6, end: 7, reset: 8 } as const

export const HEADER_BYTES = 5
export const ID_BYTES = 16
export const OFFSET_BYTES = 6
export const PAYLOAD_BYTES_MAX = 64 * 1024
export const WINDOW_BYTES = 128 * 1024
/** Smaller chunks are merged, so that a sender of single bytes does not create one object for each. */
export const CHUNK_BYTES_MIN = 4096
/** Time for which both sides keep a connection without a pipe. */
export const RESUME_MS = 5 * 60_000

export function buildFrame(type: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUInt8(type)
  header.writeUInt32BE(payload.length, 1)
  return Buffer.concat([header, payload])
}

export function buildOffset(offset: number): Buffer {
  const bytes = Buffer.alloc(OFFSET_BYTES)
  bytes.writeUIntBE(offset, 0, OFFSET_BYTES)
  return bytes
}

/**
 * Returns a function that takes the bytes of a pipe and calls `onFrame` for each frame. It returns false after a frame
 * that is too long or that `onFrame` rejected.
 */
export function createFrameReader(onFrame: (type: number, payload: Buffer) => boolean): (chunk: Buffer) => boolean {
  let chunks: Buffer[] = []
  let size = 0
  let needed = HEADER_BYTES
  return (chunk) => {
    chunks.push(chunk)
    size += chunk.length
    if (size < needed) return true
    let bytes = Buffer.concat(chunks)
    for (needed = computeFrameBytes(bytes); bytes.length >= needed; needed = computeFrameBytes(bytes)) {
      if (needed > FRAME_BYTES_MAX || !onFrame(bytes.readUInt8(), bytes.subarray(HEADER_BYTES, needed))) return false
      bytes = bytes.subarray(needed)
    }
    chunks = [bytes]
    size = bytes.length
    return needed <= FRAME_BYTES_MAX
  }
}

const FRAME_BYTES_MAX = HEADER_BYTES + PAYLOAD_BYTES_MAX

/** Returns the size of the first frame, or of its header if that is incomplete. */
const computeFrameBytes = (bytes: Buffer): number =>
  bytes.length < HEADER_BYTES ? HEADER_BYTES : HEADER_BYTES + bytes.readUInt32BE(1)
