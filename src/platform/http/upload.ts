import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { BlobRefused } from '../blobs/blob.ts'
import { type SpooledFile, spool } from '../blobs/spool.ts'
import { bodyTooLarge, malformedBody, Problem, unsupportedMediaType } from '../problem.ts'
import { readBody } from './body.ts'
import type { Endpoint } from './endpoint.ts'

/**
 * Receives a file. Checks in this order: 413, 415, 400. The file is written to disk as it arrives and is cut off at the
 * size limit.
 */
export async function receiveUpload(
  request: Request,
  expected: Endpoint['upload'],
  { folder, idleMs }: { folder: string; idleMs: number },
): Promise<SpooledFile | undefined> {
  if (!expected) return undefined
  const { mediaType, bytesMax } = expected
  if (Number(request.headers.get('content-length') ?? 0) > bytesMax) throw tooLarge(bytesMax)
  if (request.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() !== mediaType)
    throw new Problem(unsupportedMediaType, `This request needs a body with Content-Type: ${mediaType}.`)
  const spooled = await spool(Readable.from(readBody(request.body, { ms: idleMs, per: 'chunk' })), {
    folder,
    flush: false,
    bytesMax,
  }).catch(toProblem)
  if (await isGzip(spooled.path)) return spooled
  await spooled[Symbol.asyncDispose]()
  throw new Problem(malformedBody, 'The body is not gzip.')
}

const tooLarge = (bytesMax: number) => new Problem(bodyTooLarge, `The body is larger than ${bytesMax} bytes.`)

function toProblem(error: unknown): never {
  throw error instanceof BlobRefused ? new Problem(bodyTooLarge, error.message) : error
}

const GZIP = Buffer.from([0x1f, 0x8b])

async function isGzip(path: string): Promise<boolean> {
  await using file = await open(path)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(GZIP.length), 0, GZIP.length, 0)
  return bytesRead === GZIP.length && buffer.equals(GZIP)
}
