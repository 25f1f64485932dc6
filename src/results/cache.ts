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
export type Kept = { bytes: number; as(encoding: Encoding): Promise<Packed> }

/** The ETag stands for exactly these bytes. */
type Packed = { body: Uint8Array<ArrayBuffer>; etag: string; encoding: Encoding }

function kept(text: string): Kept {
  const body = new Uint8Array(Buffer.from(text))
  const tag = createHash('sha256').update(body).digest('base64url').slice(0, 27)
  const plain = Promise.resolve({ body, etag: `"${tag}"`, encoding: 'identity' as const })
  const packed = new Map<Encoding, Promise<Packed>>([['identity', plain]])
  return {
    // What is packed is never larger.
    bytes: 2 * body.byteLength,
    as(encoding) {
      if (encoding === 'identity' || body.byteLength < PACKED_BYTES_MIN) return plain
      const known = packed.get(encoding)
      if (known) return known
      const made = PACK[encoding](body).then((result) => ({
        ...{ body: new Uint8Array(result), etag: `"${tag}-${encoding}"`, encoding },
      }))
      packed.set(encoding, made)
      return made
    },
  }
}

/** The best that the client takes. */
export function encodingOf(accepted: string | undefined): Encoding {
  const refused = /(?:^|,)\s*(br|gzip)\s*;\s*q=0(?:\.0*)?\s*(?:,|$)/gi
  const words = (accepted ?? '').replaceAll(refused, ',').toLowerCase()
  if (/(?:^|[\s,])br(?:[\s;,]|$)/.test(words)) return 'br'
  return /(?:^|[\s,])gzip(?:[\s;,]|$)/.test(words) ? 'gzip' : 'identity'
}

const BYTES_MAX = 128 * 1024 * 1024

type Entry = { name: string | undefined; kept: Promise<Kept>; bytes: number }

export type ResultsCache = ReturnType<typeof resultsCache>

/**
 * Answers that were made before. It keeps something only while every change is heard; who cannot hear asks the database
 * each time.
 */
export function resultsCache() {
  const entries = new Map<string, Entry>()
  let isListening = false
  let bytes = 0

  const forget = (): void => {
    entries.clear()
    bytes = 0
  }
  const remove = (key: string): void => {
    bytes -= entries.get(key)?.bytes ?? 0
    entries.delete(key)
  }
  const use = (key: string, entry: Entry): Entry => {
    entries.delete(key)
    entries.set(key, entry)
    return entry
  }
  /** What was asked for while it changed is not the same entry any more, and is not counted. */
  const count = (key: string, entry: Entry, size: number): void => {
    if (entries.get(key) !== entry) return
    entry.bytes = size
    bytes += size
    for (const oldest of entries.keys()) {
      if (bytes <= BYTES_MAX) return
      remove(oldest)
    }
  }

  return {
    joined(): void {
      isListening = true
      forget()
    },
    lost(): void {
      isListening = false
      forget()
    },
    /** Whoever has changed something must not read what was before. */
    forget,
    /** All lists, and what is kept of this name. */
    changed(name: string): void {
      for (const [key, entry] of entries) if (entry.name === undefined || entry.name === name) remove(key)
    },
    /** `name` is undefined for what depends on all. One at a time makes it; whoever else asks waits for the same. */
    async read(key: string, name: string | undefined, make: () => Promise<string>): Promise<Kept> {
      if (!isListening) return kept(await make())
      const known = entries.get(key)
      if (known) return use(key, known).kept
      const entry: Entry = { name, kept: make().then(kept), bytes: 0 }
      entries.set(key, entry)
      try {
        const made = await entry.kept
        count(key, entry, made.bytes)
        return made
      } catch (error) {
        if (entries.get(key) === entry) remove(key)
        throw error
      }
    },
  }
}
