import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

const COMPRESS = {
  br: (body: Uint8Array) => brotli(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  gzip: (body: Uint8Array) => gzipped(body, { level: 6 }),
}
const brotli = promisify(brotliCompress)
const gzipped = promisify(gzip)

export type Encoding = keyof typeof COMPRESS | 'identity'
/** Smaller bodies do not get smaller by compression. */
const COMPRESSED_BYTES_MIN = 1024

/** A response body in all encodings. Each is compressed once, on first use. */
export type CachedBody = {
  bytes: number
  encode(encoding: Encoding): Promise<EncodedBody>
  find(encoding: Encoding): EncodedBody | undefined
}

/** A body in one encoding. The ETag identifies exactly these bytes. */
export type EncodedBody = { body: Uint8Array<ArrayBuffer>; etag: string; encoding: Encoding }

export function createCachedBody(content: string | Uint8Array): CachedBody {
  const body = new Uint8Array(typeof content === 'string' ? Buffer.from(content) : content)
  const tag = createHash('sha256').update(body).digest('base64url').slice(0, 27)
  const plain: EncodedBody = { body, etag: `"${tag}"`, encoding: 'identity' }
  const pending = new Map<Encoding, Promise<EncodedBody>>([['identity', Promise.resolve(plain)]])
  const ready = new Map<Encoding, EncodedBody>([['identity', plain]])
  const effective = (encoding: Encoding): Encoding => (body.byteLength < COMPRESSED_BYTES_MIN ? 'identity' : encoding)
  const compress = async (encoding: keyof typeof COMPRESS): Promise<EncodedBody> => {
    const compressed = new Uint8Array(await COMPRESS[encoding](body))
    const encoded = { body: compressed, etag: `"${tag}-${encoding}"`, encoding }
    ready.set(encoding, encoded)
    return encoded
  }
  return {
    // Upper bound: the plain body and two compressed ones.
    bytes: 3 * body.byteLength,
    encode(requested) {
      const encoding = effective(requested)
      const existing = pending.get(encoding)
      if (existing || encoding === 'identity') return existing ?? Promise.resolve(plain)
      const compressing = compress(encoding)
      pending.set(encoding, compressing)
      return compressing
    },
    find: (requested) => ready.get(effective(requested)),
  }
}

/** Chooses the best encoding that the client accepts. */
export function chooseEncoding(accepted: string | undefined): Encoding {
  if (accepted === undefined) return 'identity'
  const refused = /(?:^|,)\s*(br|gzip)\s*;\s*q=0(?:\.0*)?\s*(?:,|$)/gi
  const encodings = accepted.replaceAll(refused, ',').toLowerCase()
  if (/(?:^|[\s,])br(?:[\s;,]|$)/.test(encodings)) return 'br'
  return /(?:^|[\s,])gzip(?:[\s;,]|$)/.test(encodings) ? 'gzip' : 'identity'
}
