import { type Encoding, type Kept, kept, type Packed } from './packed.ts'

const BYTES_MAX = 128 * 1024 * 1024
/** Whatever other words there are for the same are asked of the router, and so are very many words. */
const TARGETS_MAX = 8
const TARGET_LENGTH_MAX = 512
/** What an entry takes besides its answer, its targets among it: anyone may ask for nothing in ever new words. */
const ENTRY_BYTES = 8192

type Entry = { name: string | undefined; kept: Promise<Kept>; made?: Kept; bytes: number; targets: string[] }

/** Which operation was asked for, and which entry it was answered from. */
type Asked = { operation: string; key: string }

/** What is kept, the least used first, within the memory that there is for it. */
function keptEntries() {
  const entries = new Map<string, Entry>()
  const targets = new Map<string, Asked>()
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
    use(key: string, entry: Entry): Entry {
      entries.delete(key)
      entries.set(key, entry)
      return entry
    },
    /** What was asked for while it changed is not the same entry any more, and is not counted. */
    made(key: string, entry: Entry, made: Kept): void {
      if (entries.get(key) !== entry) return
      entry.made = made
      entry.bytes = made.bytes + 2 * key.length + ENTRY_BYTES
      bytes += entry.bytes
      for (const oldest of entries.keys()) {
        if (bytes <= BYTES_MAX) return
        remove(oldest)
      }
    },
  }
}

export type ResultsCache = ReturnType<typeof resultsCache>

/**
 * Answers that were made before. It keeps something only while every change is heard; who cannot hear asks the database
 * each time.
 */
export function resultsCache() {
  const { entries, targets, remove, clear, use, made } = keptEntries()
  let isListening = false
  const listening = (is: boolean) => (): void => {
    isListening = is
    clear()
  }
  return {
    joined: listening(true),
    lost: listening(false),
    /** Whoever has changed something must not read what was before. */
    forget: clear,
    /** All lists, and what is kept of this name. */
    changed(name: string): void {
      for (const [key, entry] of entries) if (entry.name === undefined || entry.name === name) remove(key)
    },
    /** `name` is undefined for what depends on all. One at a time makes it; whoever else asks waits for the same. */
    async read(key: string, name: string | undefined, make: () => Promise<string>): Promise<Kept> {
      if (!isListening) return kept(await make())
      const known = entries.get(key)
      if (known) return use(key, known).kept
      const entry: Entry = { name, kept: make().then(kept), bytes: 0, targets: [] }
      entries.set(key, entry)
      try {
        made(key, entry, await entry.kept)
        return await entry.kept
      } catch (error) {
        if (entries.get(key) === entry) remove(key)
        throw error
      }
    },
    /** What is asked for in these words is answered from that entry, for as long as it is kept. */
    remember(target: string, asked: Asked): void {
      const entry = entries.get(asked.key)
      if (!entry || entry.targets.length >= TARGETS_MAX || targets.has(target)) return
      if (target.length > TARGET_LENGTH_MAX) return
      entry.targets.push(target)
      targets.set(target, asked)
    },
    /** Undefined: nobody has asked for it in these words or packed like this, or it has changed since. */
    find(target: string, encoding: Encoding): { operation: string; packed: Packed } | undefined {
      const asked = targets.get(target)
      if (!asked) return undefined
      const entry = entries.get(asked.key)
      const packed = entry?.made?.find(encoding)
      if (!entry || !packed) return undefined
      use(asked.key, entry)
      return { operation: asked.operation, packed }
    },
  }
}
