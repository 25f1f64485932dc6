import { pipeline, type Readable } from 'node:stream'
import { countsOf, hasDuplicates } from './duplicates.ts'
import { decoderFor } from './encodings.ts'
import type { Json, JsonObject } from './wire.ts'

type RefusedBody = { kind: 'refused'; reason: 'size' | 'malformed' | 'busy'; message: string }

export type RequestBody =
  | { kind: 'read'; bytes: Buffer }
  | RefusedBody
  /** The client left before it had said all. */
  | { kind: 'gone' }

type Room = {
  /** Of one request. */
  bytesMax: number
  /** False: there is no room for so many bytes more now. */
  take: (bytes: number) => boolean
}

/** The whole request, unpacked. What it unpacks to is counted, so a small one that holds gigabytes is stopped too. */
export async function readRequestBody(
  source: Readable,
  encoding: string | string[] | undefined,
  room: Room,
): Promise<RequestBody> {
  const decoder = decoderFor(encoding)
  if (decoder === undefined)
    return malformed(`A body in the encoding ${String(encoding).slice(0, 50)} is not understood.`)
  const unpacked = decoder ? pipeline(source, decoder, () => {}) : source
  try {
    const body = await gathered(unpacked, room)
    if (Buffer.isBuffer(body)) return { kind: 'read', bytes: body }
    decoder?.destroy()
    source.resume()
    return body
  } catch {
    const hasLeft = source.destroyed && !source.readableEnded && !decoder?.errored
    return hasLeft ? { kind: 'gone' } : malformed('The body could not be unpacked.')
  }
}

async function gathered(unpacked: Readable, { bytesMax, take }: Room): Promise<Buffer | RequestBody> {
  const chunks: Buffer[] = []
  let length = 0
  // Not ended with the loop: the answer goes out on the same connection.
  for await (const chunk of unpacked.iterator({ destroyOnReturn: false })) {
    length += chunk.length
    if (length > bytesMax) return tooLarge(bytesMax)
    if (!take(chunk.length)) return tooBusy
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const tooLarge = (bytesMax: number): RefusedBody => ({
  ...{ kind: 'refused', reason: 'size', message: `A request has at most ${bytesMax} bytes.` },
})

const tooBusy: RefusedBody = { kind: 'refused', reason: 'busy', message: 'Too much is being asked at once.' }

const malformed = (message: string): RefusedBody => ({ kind: 'refused', reason: 'malformed', message })

// A conversation is long texts. Millions of small things would take far more memory than the bytes they come in.
const VALUES_MAX = 1_000_000

const utf8 = new TextDecoder('utf-8', { fatal: true })

// A request that is changed is written again, by recursion.
const DEPTH_MAX = 500

export function parseRequestBody(bytes: Uint8Array): { kind: 'parsed'; json: JsonObject } | RefusedBody {
  const { colons, values, depth } = countsOf(bytes)
  if (values > VALUES_MAX) return malformed('The body has too many parts.')
  if (depth > DEPTH_MAX) return malformed('The body is nested too deeply.')
  const json = jsonOf(bytes)
  if (json === undefined || json === null || typeof json !== 'object' || Array.isArray(json)) {
    return malformed('The body must be one JSON object.')
  }
  if (hasDuplicates(colons, json)) return malformed('The body has two members of the same name.')
  return { kind: 'parsed', json }
}

function jsonOf(bytes: Uint8Array): Json | undefined {
  try {
    return JSON.parse(utf8.decode(bytes))
  } catch {
    return undefined
  }
}
