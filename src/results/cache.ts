import { type CachedBody, createCachedBody, type EncodedBody, type Encoding } from './cached-body.ts'

const BYTES_MAX = 128 * 1024 * 1024
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
    use(key: string, entry: CacheEntry): CacheEntry {
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
        if (bytes <= BYTES_MAX) return
        remove(oldest)
      }
    },
  }
}

export type ResultsCache = ReturnType<typeof createResultsCache>

/**
 * Cache of public answers. Active only while change notifications are received; otherwise every request reads the
 * database.
 */
export function createResultsCache() {
  const { entries, targets, remove, clear, use, complete } = createEntries()
  let isListening = false
  const setListening = (value: boolean) => (): void => {
    isListening = value
    clear()
  }
  return {
    joined: setListening(true),
    lost: setListening(false),
    /** Clears the cache. Called after a change, so that its author does not read stale data. */
    forget: clear,
    /** Removes all lists and the entries of this name. */
    changed(name: string): void {
      for (const [key, entry] of entries) if (entry.name === undefined || entry.name === name) remove(key)
    },
    /** Returns a cached body or renders it. Concurrent reads share one rendering. `name` is undefined for lists. */
    async read(key: string, name: string | undefined, render: () => Promise<string>): Promise<CachedBody> {
      if (!isListening) return createCachedBody(await render())
      const cached = entries.get(key)
      if (cached) return use(key, cached).pending
      const entry: CacheEntry = { name, pending: render().then(createCachedBody), bytes: 0, targets: [] }
      entries.set(key, entry)
      try {
        complete(key, entry, await entry.pending)
        return await entry.pending
      } catch (error) {
        if (entries.get(key) === entry) remove(key)
        throw error
      }
    },
    /** Lets `find` answer this request target from the entry while it is cached. */
    remember(target: string, cachedTarget: CachedTarget): void {
      const entry = entries.get(cachedTarget.key)
      if (!entry || entry.targets.length >= TARGETS_MAX || targets.has(target)) return
      if (target.length > TARGET_LENGTH_MAX) return
      entry.targets.push(target)
      targets.set(target, cachedTarget)
    },
    /** Finds a ready body for a request target. Undefined if target or encoding is not cached. */
    find(target: string, encoding: Encoding): { operation: string; encoded: EncodedBody } | undefined {
      const cachedTarget = targets.get(target)
      if (!cachedTarget) return undefined
      const entry = entries.get(cachedTarget.key)
      const encoded = entry?.body?.find(encoding)
      if (!entry || !encoded) return undefined
      use(cachedTarget.key, entry)
      return { operation: cachedTarget.operation, encoded }
    },
  }
}
