import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { codeOf } from '../platform/blobs/error-codes.ts'
import { ArchiveRefused } from './archive-refused.ts'

export type StreamLimits = { entries: number; totalBytes: number; ratio: number; timeMs: number }

const GZIP = Buffer.from([0x1f, 0x8b])
/** A small archive of zeros is no bomb, however well it packs. */
const RATIO_FREE_BYTES = 8 * 1024 * 1024
/** What headers and padding may add, to each entry and once. */
const ENTRY_OVERHEAD_BYTES = 2 * 1024
const OVERHEAD_BYTES = 1024 * 1024

/** The tar in an archive that may be gzipped, as long as it keeps to the limits. */
export async function* tarStream(archive: Readable, limits: StreamLimits): AsyncGenerator<Buffer> {
  const count = { packed: 0, unpacked: 0, started: performance.now() }
  const late = setTimeout(() => archive.destroy(tooSlow(limits)), limits.timeMs)
  try {
    for await (const chunk of unzipped(counted(archive, count))) {
      count.unpacked += chunk.length
      check(count, limits)
      yield chunk
    }
  } catch (error) {
    throw codeOf(error).startsWith('Z_') ? new ArchiveRefused('damaged', 'It cannot be unzipped.') : error
  } finally {
    clearTimeout(late)
  }
}

type Count = { packed: number; unpacked: number; started: number }

function check({ packed, unpacked, started }: Count, limits: StreamLimits): void {
  const bytesMax = limits.totalBytes + limits.entries * ENTRY_OVERHEAD_BYTES + OVERHEAD_BYTES
  if (unpacked > bytesMax) throw new ArchiveRefused('too_large', `It has more than ${limits.totalBytes} bytes.`)
  if (unpacked > RATIO_FREE_BYTES && unpacked / packed > limits.ratio) {
    throw new ArchiveRefused('compressed_too_much', `One byte stands for more than ${limits.ratio}.`)
  }
  if (performance.now() - started > limits.timeMs) throw tooSlow(limits)
}

const tooSlow = ({ timeMs }: StreamLimits): ArchiveRefused =>
  new ArchiveRefused('too_slow', `It was not unpacked within ${timeMs} ms.`)

async function* counted(archive: Readable, count: Count): AsyncGenerator<Buffer> {
  for await (const chunk of archive) {
    count.packed += chunk.length
    yield chunk
  }
}

async function* unzipped(packed: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  const start = await startOf(packed)
  const whole = followedBy(start, packed)
  if (!start.subarray(0, GZIP.length).equals(GZIP)) return yield* whole
  const gunzip = createGunzip()
  pipeline(Readable.from(whole), gunzip, () => undefined) // an error reaches the reader through `gunzip`
  yield* gunzip
}

async function startOf(packed: AsyncGenerator<Buffer>): Promise<Buffer> {
  let start: Buffer = Buffer.alloc(0)
  while (start.length < GZIP.length) {
    const { done, value } = await packed.next()
    if (done) return start
    start = Buffer.concat([start, value])
  }
  return start
}

async function* followedBy(start: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  if (start.length > 0) yield start
  yield* rest
}
