import { pipeline, type Readable } from 'node:stream'
import type { Json, JsonObject } from '../harnesses/json.ts'
import { parseOrUndefined } from '../platform/errors.ts'
import { hasDuplicates, measureJson } from '../platform/untrusted-json.ts'
import { createDecoder } from './headers.ts'

type RefusedBody = { kind: 'refused'; reason: 'size' | 'malformed' | 'busy'; message: string }

type RequestBody =
  | { kind: 'read'; bytes: Buffer }
  | RefusedBody
  /** The client disconnected before the body was complete. */
  | { kind: 'gone' }

type RequestBodyLimits = {
  /** Maximum size of one request. */
  bytesMax: number
  /** Returns false if the grant has no memory left for these bytes. */
  takeBytes: (bytes: number) => boolean
}

/** Reads and decompresses a request. The limit applies to the decompressed size, so decompression bombs are refused. */
export async function readRequestBody(
  source: Readable,
  encoding: string | string[] | undefined,
  limits: RequestBodyLimits,
): Promise<RequestBody> {
  const decoder = createDecoder(encoding)
  if (decoder === undefined) return malformed(`Unsupported content encoding: ${String(encoding).slice(0, 50)}.`)
  const unpacked = decoder ? pipeline(source, decoder, () => {}) : source
  try {
    const body = await readBounded(unpacked, limits)
    if (Buffer.isBuffer(body)) return { kind: 'read', bytes: body }
    decoder?.destroy()
    source.resume()
    return body
  } catch {
    const hasLeft = source.destroyed && !source.readableEnded && !decoder?.errored
    return hasLeft ? { kind: 'gone' } : malformed('The body could not be decompressed.')
  }
}

async function readBounded(
  unpacked: Readable,
  { bytesMax, takeBytes }: RequestBodyLimits,
): Promise<Buffer | RefusedBody> {
  const chunks: Buffer[] = []
  let length = 0
  // The stream must stay open: the response is sent on the same connection.
  for await (const chunk of unpacked.iterator({ destroyOnReturn: false })) {
    length += chunk.length
    if (length > bytesMax) return tooLarge(bytesMax)
    if (!takeBytes(chunk.length)) return tooBusy
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const tooLarge = (bytesMax: number): RefusedBody => ({
  kind: 'refused',
  reason: 'size',
  message: `A request must not exceed ${bytesMax} bytes.`,
})

const tooBusy: RefusedBody = {
  kind: 'refused',
  reason: 'busy',
  message: 'Too many bytes in concurrent requests. Wait until one of them has ended.',
}

const malformed = (message: string): RefusedBody => ({ kind: 'refused', reason: 'malformed', message })

/**
 * Maximum number of values. Millions of small values take far more memory than their bytes; conversations have few,
 * long ones.
 */
const VALUES_MAX = 1_000_000

/** Maximum nesting. A rewritten request is serialized recursively, so that deep nesting would overflow the stack. */
const DEPTH_MAX = 500

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Parses a request whose provider must read the same values as the gateway: a JSON object without duplicate members. */
export function parseRequestBody(bytes: Uint8Array): { kind: 'parsed'; json: JsonObject } | RefusedBody {
  const { colons, values, depth } = measureJson(bytes)
  if (values > VALUES_MAX) return malformed('The body has too many values.')
  if (depth > DEPTH_MAX) return malformed('The body is nested too deeply.')
  const json = parseOrUndefined((): Json => JSON.parse(utf8.decode(bytes)))
  if (json === undefined || json === null || typeof json !== 'object' || Array.isArray(json)) {
    return malformed('The body must be one JSON object.')
  }
  if (hasDuplicates(colons, json)) return malformed('The body has two members with the same name.')
  return { kind: 'parsed', json }
}
