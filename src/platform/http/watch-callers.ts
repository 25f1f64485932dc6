import { setTimeout as wait } from 'node:timers/promises'
import type { Authenticate, Presented } from './caller.ts'

const LOOK_EVERY_MS = 500

/** One who reads a stream. The signal aborts when his key or session is valid no more. */
export type Watched = { signal: AbortSignal; leave(): void }

/** Asks again for those who read streams, once for all streams of a key in this process. */
export function watchCallers(authenticate: Authenticate, everyMs = LOOK_EVERY_MS) {
  const watched = new Map<string, Set<AbortController>>()

  async function look(name: string, presented: Presented, readers: Set<AbortController>): Promise<void> {
    while (readers.size > 0) {
      await wait(everyMs, undefined, { ref: false })
      const isValid = await authenticate(presented).then(
        (caller) => caller !== undefined,
        () => true, // a database that is away says nothing about a key
      )
      if (isValid) continue
      for (const reader of readers) reader.abort()
      break
    }
    watched.delete(name)
  }

  return (presented: Presented): Watched => {
    const name = JSON.stringify(presented)
    const known = watched.get(name)
    const readers = known ?? new Set()
    const reader = new AbortController()
    readers.add(reader)
    watched.set(name, readers)
    if (!known) void look(name, presented, readers)
    return { signal: reader.signal, leave: () => void readers.delete(reader) }
  }
}
