import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

const PACK = {
  br: (body: Uint8Array) => brotli(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  gzip: (body: Uint8Array) => gzipped(body, { level: 6 }),
}
const brotli = promisify(brotliCompress)
const gzipped = promisify(gzip)

export type Encoding = keyof typeof PACK | 'identity'
/** Smaller bodies grow by being packed. */
const PACKED_BYTES_MIN = 1024

/** A body with all the ways in which it can be sent. Each is packed once, when somebody first asks for it. */
export type Kept = {
  bytes: number
  as(encoding: Encoding): Promise<Packed>
  find(encoding: Encoding): Packed | undefined
}

/** The ETag stands for exactly these bytes. */
export type Packed = { body: Uint8Array<ArrayBuffer>; etag: string; encoding: Encoding }

export function kept(text: string): Kept {
  const body = new Uint8Array(Buffer.from(text))
  const tag = createHash('sha256').update(body).digest('base64url').slice(0, 27)
  const plain: Packed = { body, etag: `"${tag}"`, encoding: 'identity' }
  const packing = new Map<Encoding, Promise<Packed>>([['identity', Promise.resolve(plain)]])
  const packed = new Map<Encoding, Packed>([['identity', plain]])
  const bestOf = (encoding: Encoding): Encoding => (body.byteLength < PACKED_BYTES_MIN ? 'identity' : encoding)
  const pack = async (encoding: keyof typeof PACK): Promise<Packed> => {
    const made = new Uint8Array(await PACK[encoding](body))
    const answer = { body: made, etag: `"${tag}-${encoding}"`, encoding }
    packed.set(encoding, answer)
    return answer
  }
  return {
    // Plain, and packed in two ways, neither of which is larger.
    bytes: 3 * body.byteLength,
    as(wanted) {
      const encoding = bestOf(wanted)
      const known = packing.get(encoding)
      if (known || encoding === 'identity') return known ?? Promise.resolve(plain)
      const made = pack(encoding)
      packing.set(encoding, made)
      return made
    },
    find: (wanted) => packed.get(bestOf(wanted)),
  }
}

/** The best that the client takes. */
export function encodingOf(accepted: string | undefined): Encoding {
  if (accepted === undefined) return 'identity'
  const refused = /(?:^|,)\s*(br|gzip)\s*;\s*q=0(?:\.0*)?\s*(?:,|$)/gi
  const words = accepted.replaceAll(refused, ',').toLowerCase()
  if (/(?:^|[\s,])br(?:[\s;,]|$)/.test(words)) return 'br'
  return /(?:^|[\s,])gzip(?:[\s;,]|$)/.test(words) ? 'gzip' : 'identity'
}
