import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { listenTo } from '../platform/db/notices.ts'
import { CHANGED_CHANNEL } from './sql.ts'

/** Maximum memory of all cached answers. */
const CACHE_BYTES_MAX = 128 * 1024 * 1024
/** Maximum number of request targets per entry. Requests with other targets go through the router. */
const TARGETS_MAX = 8
const TARGET_LENGTH_MAX = 512
/** Overhead per entry including its targets. Bounds the memory of many distinct requests with tiny answers. */
const ENTRY_BYTES = 8192

type CacheEntry = {
  name: string | undefined
  pending: Promise<CachedBody>
  body?: CachedBody
  bytes: number
  targets: string[]
}

/** The operation of a request target, and the entry that answers it. */
type CachedTarget = { operation: string; key: string }

/** LRU entries, the least recently used first, within a memory limit. */
function createEntries() {
  const entries = new Map<string, CacheEntry>()
  const targets = new Map<string, CachedTarget>()
  let bytes = 0

  const remove = (key: string): void => {
    const entry = entries.get(key)
    bytes -= entry?.bytes ?? 0
    entries.delete(key)
    for (const target of entry?.targets ?? []) targets.delete(target)
  }
  return {
    entries,
    targets,
    remove,
    clear(): void {
      entries.clear()
      targets.clear()
      bytes = 0
    },
    /** Makes an entry the most recently used one. */
    touch(key: string, entry: CacheEntry): CacheEntry {
      entries.delete(key)
      entries.set(key, entry)
      return entry
    },
    /** Stores the body of an entry and evicts old entries. Does nothing if the entry was removed meanwhile. */
    complete(key: string, entry: CacheEntry, body: CachedBody): void {
      if (entries.get(key) !== entry) return
      entry.body = body
      entry.bytes = body.bytes + 2 * key.length + ENTRY_BYTES
      bytes += entry.bytes
      for (const oldest of entries.keys()) {
        if (bytes <= CACHE_BYTES_MAX) return
        remove(oldest)
      }
    },
  }
}

type ReadOperation = { id: string; media?: string | undefined }

/** Headers of public answers. They must be revalidated, so that withdrawn results disappear immediately. */
export const CACHE_HEADERS = { 'cache-control': 'public, no-cache', vary: 'Accept-Encoding' }

/** A public read with the headers of its answer in each encoding. */
export type CachedRead<Operation extends ReadOperation = ReadOperation> = {
  endpoint: Operation
  type: string
  headers: Record<Encoding, Record<string, string>>
}

/** Describes a public read: these headers in each encoding, and the media type of its endpoint. */
export function describeRead<Operation extends ReadOperation>(
  endpoint: Operation,
  headers: Record<string, string>,
): CachedRead<Operation> {
  const encoded = (encoding: Encoding) => ({ ...headers, 'content-encoding': encoding })
  const byEncoding = { identity: headers, gzip: encoded('gzip'), br: encoded('br') }
  return { endpoint, type: endpoint.media ?? 'application/json', headers: byEncoding }
}

export type EncodingRequest = { acceptEncoding: string | undefined; target: string }
/** Source of a body. `name` is the repository that it depends on, undefined for lists. */
type BodySource = { key: string; name: string | undefined; render: RenderBody }
type RenderBody = () => Promise<string | Uint8Array>

export type ResultsCache = ReturnType<typeof createResultsCache>

/**
 * Cache of public answers. Active only while change notifications are received; otherwise every request reads the
 * database.
 */
export function createResultsCache() {
  const { entries, targets, remove, clear, touch, complete } = createEntries()
  let isListening = false
  const setListening = (value: boolean) => (): void => {
    isListening = value
    clear()
  }
  /** Returns a cached body or renders it. Concurrent reads share one rendering. `name` is undefined for lists. */
  const read = async (key: string, name: string | undefined, render: RenderBody): Promise<CachedBody> => {
    if (!isListening) return createCachedBody(await render())
    const cached = entries.get(key)
    if (cached) return touch(key, cached).pending
    const entry: CacheEntry = { name, pending: render().then(createCachedBody), bytes: 0, targets: [] }
    entries.set(key, entry)
    try {
      complete(key, entry, await entry.pending)
      return await entry.pending
    } catch (error) {
      if (entries.get(key) === entry) remove(key)
      throw error
    }
  }
  /** Lets `find` answer this request target from the entry while it is cached. */
  const remember = (target: string, cachedTarget: CachedTarget): void => {
    const entry = entries.get(cachedTarget.key)
    if (!entry || entry.targets.length >= TARGETS_MAX || targets.has(target)) return
    if (target.length > TARGET_LENGTH_MAX) return
    entry.targets.push(target)
    targets.set(target, cachedTarget)
  }
  return {
    activate: setListening(true),
    deactivate: setListening(false),
    /** Called after a change, so that its author does not read stale results. */
    clear,
    /** Removes all lists and the entries of this name. */
    invalidate(name: string): void {
      for (const [key, entry] of entries) if (entry.name === undefined || entry.name === name) remove(key)
    },
    read,
    remember,
    /** Returns the body in the best encoding that the client accepts, and lets `find` answer the next request. */
    async answer(operation: CachedRead, request: EncodingRequest, { key, name, render }: BodySource) {
      const body = await read(key, name, render)
      const { body: bytes, etag, encoding } = await body.encode(chooseEncoding(request.acceptEncoding))
      remember(request.target, { operation: operation.endpoint.id, key })
      return { cached: { body: bytes, etag, type: operation.type }, headers: operation.headers[encoding] }
    },
    /** Finds a ready body for a request target. Undefined if target or encoding is not cached. */
    find(target: string, encoding: Encoding): { operation: string; encoded: EncodedBody } | undefined {
      const cachedTarget = targets.get(target)
      if (!cachedTarget) return undefined
      const entry = entries.get(cachedTarget.key)
      const encoded = entry?.body?.find(encoding)
      if (!entry || !encoded) return undefined
      touch(cachedTarget.key, entry)
      return { operation: cachedTarget.operation, encoded }
    },
  }
}

/** Invalidates the cache when any process changes results. The cache is off while the connection is down. */
export const listenForChanges = (url: string, cache: ResultsCache): { close(): Promise<void> } =>
  listenTo(
    { url, channel: CHANGED_CHANNEL, applicationName: 'assay-results' },
    { onConnect: cache.activate, onNotice: cache.invalidate, onDisconnect: cache.deactivate },
  )

const COMPRESSORS = {
  br: (body: Uint8Array) => brotli(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  gzip: (body: Uint8Array) => gzipped(body, { level: 6 }),
}
const brotli = promisify(brotliCompress)
const gzipped = promisify(gzip)

type Encoding = keyof typeof COMPRESSORS | 'identity'
/** Minimum size of bodies that are compressed. Smaller ones do not get smaller. */
const COMPRESSED_BYTES_MIN = 1024

/** A response body in all encodings. Each is compressed once, on first use. */
type CachedBody = {
  bytes: number
  encode(encoding: Encoding): Promise<EncodedBody>
  find(encoding: Encoding): EncodedBody | undefined
}

/** A body in one encoding. The ETag identifies exactly these bytes. */
type EncodedBody = { body: Uint8Array<ArrayBuffer>; etag: string; encoding: Encoding }

function createCachedBody(content: string | Uint8Array): CachedBody {
  const body = new Uint8Array(typeof content === 'string' ? Buffer.from(content) : content)
  const tag = computeEntityTag(body)
  const plain: EncodedBody = { body, etag: `"${tag}"`, encoding: 'identity' }
  const pending = new Map<Encoding, Promise<EncodedBody>>([['identity', Promise.resolve(plain)]])
  const ready = new Map<Encoding, EncodedBody>([['identity', plain]])
  const effective = (encoding: Encoding): Encoding => (body.byteLength < COMPRESSED_BYTES_MIN ? 'identity' : encoding)
  const compress = async (encoding: keyof typeof COMPRESSORS): Promise<EncodedBody> => {
    const compressed = new Uint8Array(await COMPRESSORS[encoding](body))
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

const TAG_LENGTH = 27

/** Computes a hash of a body for its ETag. */
export const computeEntityTag = (body: Uint8Array): string =>
  createHash('sha256').update(body).digest('base64url').slice(0, TAG_LENGTH)

/** Chooses the best encoding that the client accepts. An encoding with quality 0 is refused. */
export function chooseEncoding(accepted: string | undefined): Encoding {
  if (accepted === undefined) return 'identity'
  const refused = /(?:^|,)\s*(br|gzip)\s*;\s*q=0(?:\.0*)?\s*(?:,|$)/gi
  const encodings = accepted.replaceAll(refused, ',').toLowerCase()
  if (/(?:^|[\s,])br(?:[\s;,]|$)/.test(encodings)) return 'br'
  return /(?:^|[\s,])gzip(?:[\s;,]|$)/.test(encodings) ? 'gzip' : 'identity'
}
