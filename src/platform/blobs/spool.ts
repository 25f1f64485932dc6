import { createHash, randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { hasCode } from '../errors.ts'
import { BlobRefused, type Digest, hexOf, type PutOptions } from './blob.ts'

export type SpooledFile = AsyncDisposable & { path: string; digest: Digest; bytes: number }

const SPOOL_NAME = /^blob-[0-9a-f-]{36}\.part$/
const SPOOL_AGE_MAX_MS = 24 * 60 * 60 * 1000

/**
 * Writes content to a new file in the folder to compute its digest and length. With `flush` it is on disk when this
 * returns. Disposing the result removes the file if it is still there.
 */
export async function spool(
  content: Readable | Uint8Array,
  { folder, flush, expect, bytesMax = Number.POSITIVE_INFINITY }: PutOptions & { folder: string; flush: boolean },
): Promise<SpooledFile> {
  if (expect !== undefined) hexOf(expect) // Throws before anything is written if the digest is malformed.
  const path = join(folder, `blob-${randomUUID()}.part`)
  const meter = createMeter(bytesMax)
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const source = content instanceof Uint8Array ? Readable.from([content], { objectMode: false }) : content
    await pipeline(source, meter.stream, createWriteStream(path, { flags: 'wx', mode: 0o600, flush }))
    const digest = meter.digest()
    if (expect !== undefined && digest !== expect) {
      throw new BlobRefused('digest_mismatch', `Expected content with digest ${expect}, received ${digest}.`)
    }
    return { path, digest, bytes: meter.bytes(), [Symbol.asyncDispose]: () => rm(path, { force: true }) }
  } catch (error) {
    await rm(path, { force: true })
    throw error
  }
}

/** Deletes files of killed processes: those older than a day, because no upload takes that long. */
export async function deleteStaleSpools(folder: string): Promise<void> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return []
    throw error
  })
  for (const name of names.filter((each) => SPOOL_NAME.test(each))) {
    const stats = await stat(join(folder, name)).catch(() => undefined) // The owner of a spool may remove it at any time.
    if (stats && Date.now() - stats.mtimeMs > SPOOL_AGE_MAX_MS) await rm(join(folder, name), { force: true })
  }
}

function createMeter(bytesMax: number) {
  const hash = createHash('sha256')
  let bytes = 0
  const stream = new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.byteLength
      if (bytes > bytesMax) return done(new BlobRefused('too_large', `The content has more than ${bytesMax} bytes.`))
      hash.update(chunk)
      done(null, chunk)
    },
  })
  return { stream, bytes: () => bytes, digest: (): Digest => `sha256:${hash.digest('hex')}` }
}
