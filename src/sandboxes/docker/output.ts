import { open } from 'node:fs/promises'
import type { Duplex } from 'node:stream'

const HEADER_BYTES = 8
const LENGTH_AT = 4

/** `onOutput` is called for every chunk. */
type FrameOutput = { file: string; maxBytes: number; onOutput?: () => void }

/**
 * Copies the output of a container to a file, up to a limit, and counts the rest. The engine sends frames: a header
 * with a length, then that many bytes.
 */
export async function copyFrames(
  stream: Duplex,
  { file, maxBytes, onOutput = () => {} }: FrameOutput,
): Promise<{ bytes: number }> {
  await using target = await open(file, 'w', 0o600)
  let bytes = 0
  for await (const part of payloads(stream)) {
    onOutput()
    const room = Math.max(0, maxBytes - bytes)
    bytes += part.length
    if (room > 0) await target.writeFile(part.length <= room ? part : part.subarray(0, room))
  }
  return { bytes }
}

async function* payloads(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let header = Buffer.alloc(0)
  let left = 0
  for await (const chunk of stream) {
    for (let at = 0; at < chunk.length; ) {
      if (left > 0) {
        const part = chunk.subarray(at, at + left)
        at += part.length
        left -= part.length
        yield part
        continue
      }
      const part = chunk.subarray(at, at + HEADER_BYTES - header.length)
      header = Buffer.concat([header, part])
      at += part.length
      if (header.length < HEADER_BYTES) continue
      left = header.readUInt32BE(LENGTH_AT)
      header = Buffer.alloc(0)
    }
  }
}
