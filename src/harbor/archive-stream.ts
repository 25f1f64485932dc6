import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { codeOf } from '../platform/errors.ts'
import { sanitizeText } from './report.ts'

/** Limits of an archive while it is read. `ratio` is the unpacked size divided by the packed size. */
export type StreamLimits = { entries: number; totalBytes: number; ratio: number; timeMs: number }

const GZIP = Buffer.from([0x1f, 0x8b])
/** Archives below this unpacked size may have any compression ratio. */
const RATIO_FREE_BYTES = 8 * 1024 * 1024
/** Allowance for the tar headers and the padding of one entry. */
const ENTRY_OVERHEAD_BYTES = 2 * 1024
/** Allowance for the blocks of zeros at the end of an archive. */
const END_OVERHEAD_BYTES = 1024 * 1024

/** Yields the tar bytes of an archive, gunzipped if needed. Throws ArchiveRefused when a limit is exceeded. */
export async function* tarStream(archive: Readable, limits: StreamLimits): AsyncGenerator<Buffer> {
  const count = { packed: 0, unpacked: 0, startedAtMs: performance.now() }
  const timer = setTimeout(() => archive.destroy(toSlowRefusal(limits)), limits.timeMs)
  try {
    for await (const chunk of unzip(countBytes(archive, count))) {
      count.unpacked += chunk.length
      checkLimits(count, limits)
      yield chunk
    }
  } catch (error) {
    const isZlibError = codeOf(error).startsWith('Z_')
    throw isZlibError ? new ArchiveRefused('damaged', 'The gzip data is invalid.') : error
  } finally {
    clearTimeout(timer)
  }
}

/** Bytes read so far. `startedAtMs` is a time of `performance.now()`. */
type ByteCount = { packed: number; unpacked: number; startedAtMs: number }

function checkLimits({ packed, unpacked, startedAtMs }: ByteCount, limits: StreamLimits): void {
  const bytesMax = limits.totalBytes + limits.entries * ENTRY_OVERHEAD_BYTES + END_OVERHEAD_BYTES
  if (unpacked > bytesMax)
    throw new ArchiveRefused('too_large', `The archive unpacks to more than ${limits.totalBytes} bytes.`)
  if (unpacked > RATIO_FREE_BYTES && unpacked / packed > limits.ratio) {
    throw new ArchiveRefused('compressed_too_much', `The compression ratio is more than ${limits.ratio}.`)
  }
  if (performance.now() - startedAtMs > limits.timeMs) throw toSlowRefusal(limits)
}

const toSlowRefusal = ({ timeMs }: StreamLimits): ArchiveRefused =>
  new ArchiveRefused('too_slow', `Unpacking took longer than ${timeMs} ms.`)

async function* countBytes(archive: Readable, count: ByteCount): AsyncGenerator<Buffer> {
  for await (const chunk of archive) {
    count.packed += chunk.length
    yield chunk
  }
}

async function* unzip(packed: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  const start = await readStart(packed)
  const archiveBytes = concat(start, packed)
  if (!start.subarray(0, GZIP.length).equals(GZIP)) return yield* archiveBytes
  const gunzip = createGunzip()
  pipeline(Readable.from(archiveBytes), gunzip, () => undefined) // an error reaches the reader through `gunzip`
  yield* gunzip
}

async function readStart(packed: AsyncGenerator<Buffer>): Promise<Buffer> {
  let start: Buffer = Buffer.alloc(0)
  while (start.length < GZIP.length) {
    const { done, value } = await packed.next()
    if (done) return start
    start = Buffer.concat([start, value])
  }
  return start
}

async function* concat(start: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  if (start.length > 0) yield start
  yield* rest
}

type ArchiveReason =
  | 'damaged'
  | 'empty'
  | 'unsafe_path'
  | 'path_too_long'
  | 'path_too_deep'
  | 'duplicate'
  | 'collision'
  | 'under_a_file'
  | 'through_a_link'
  | 'link'
  | 'link_outside'
  | 'special_file'
  | 'sparse'
  | 'too_many_entries'
  | 'file_too_large'
  | 'too_large'
  | 'compressed_too_much'
  | 'too_slow'

/** Thrown for an archive that must not be unpacked. No file of it remains on disk. */
export class ArchiveRefused extends Error {
  override name = 'ArchiveRefused'
  readonly reason: ArchiveReason
  /** Path of the offending entry, if the problem is one entry. */
  readonly path: string | undefined

  constructor(reason: ArchiveReason, message: string, path?: string) {
    super(path === undefined ? message : `${sanitizeText(path)}: ${message}`)
    this.reason = reason
    this.path = path
  }
}
