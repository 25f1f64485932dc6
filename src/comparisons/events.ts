import type { Db } from '../platform/db/db.ts'
import { createWakeSignal, type WakeSignal } from '../platform/wake-signal.ts'
import { readStatus } from './comparisons.ts'
import { namesOf } from './names.ts'
import type { Comparison } from './shapes/schema.ts'
import { findByKey } from './sql.ts'
import { currentSnapshot, readChanges } from './trials/trials.ts'

/** As it goes to everyone who watches. The id says what was visible when it was made. */
export type ComparisonEvent = { event: 'status' | 'trial' | 'end'; data: unknown; id?: string }

const LOOK_EVERY_MS = 500
/** Who is further behind is let go; it comes back with the last id it has seen. */
const BEHIND_MAX = 50
const SNAPSHOT = /^(\d{1,18}):(\d{1,18}):((?:\d{1,18}(?:,\d{1,18}){0,100})?)$/
const ENDED: readonly string[] = ['completed', 'canceled', 'submission_failed']

type Watcher = { batches: ComparisonEvent[][]; bell: WakeSignal }
type Watched = { watchers: Set<Watcher>; bell: WakeSignal }

export type ComparisonEvents = ReturnType<typeof comparisonEvents>

/** Looks at each comparison that somebody watches, once for all who watch it in this process. */
export function comparisonEvents(db: Db, lookEveryMs = LOOK_EVERY_MS) {
  const watched = new Map<number, Watched>()

  const join = (key: number, watcher: Watcher): void => {
    const known = watched.get(key)
    if (known) return void known.watchers.add(watcher)
    const fresh = { watchers: new Set([watcher]), bell: createWakeSignal() }
    watched.set(key, fresh)
    void lookAt(db, key, fresh, lookEveryMs).finally(() => {
      if (watched.get(key) === fresh) watched.delete(key)
    })
  }
  const leave = (key: number, watcher: Watcher): void => {
    const known = watched.get(key)
    known?.watchers.delete(watcher)
    if (known?.watchers.size === 0) known.bell.notify()
  }

  return {
    /** What happened since the last id, how it stands now, and whatever comes. Ends with the comparison. */
    async *follow(key: number, lastId: string | undefined, signal: AbortSignal): AsyncGenerator<ComparisonEvent> {
      const watcher: Watcher = { batches: [], bell: createWakeSignal() }
      join(key, watcher)
      signal.addEventListener('abort', watcher.bell.notify)
      try {
        const { events, isOver } = await look(db, key, isSnapshot(lastId) ? lastId : undefined)
        yield* events
        if (!isOver) yield* batchesOf(watcher, signal)
      } finally {
        signal.removeEventListener('abort', watcher.bell.notify)
        leave(key, watcher)
      }
    },
  }
}

/** As PostgreSQL writes them: the oldest that was open, the next to come, and those between that were open, in order. */
function isSnapshot(text: string | undefined): text is string {
  const [, first, next, open = ''] = SNAPSHOT.exec(text ?? '') ?? []
  if (first === undefined || next === undefined) return false
  const numbers = [first, ...(open === '' ? [] : open.split(',')), next].map(BigInt)
  return numbers.every((number, index) => number > 0n && number >= (numbers[index - 1] ?? 1n))
}

const WAIT_MS = 60_000

async function* batchesOf({ batches, bell }: Watcher, signal: AbortSignal): AsyncGenerator<ComparisonEvent> {
  while (!signal.aborted && batches.length < BEHIND_MAX) {
    const batch = batches.shift() ?? []
    yield* batch
    if (batch.at(-1)?.event === 'end') return
    if (batches.length === 0) await bell.wait(WAIT_MS)
  }
}

/** Until it has ended or nobody watches any more. A database that is away comes back. */
async function lookAt(db: Db, key: number, { watchers, bell }: Watched, everyMs: number): Promise<void> {
  let last: Look | undefined
  while (watchers.size > 0 && !last?.isOver) {
    const found = await look(db, key, last?.snapshot).catch(() => undefined)
    if (found && isNews(found, last)) for (const watcher of watchers) tell(watcher, found.events)
    last = found ?? last
    await bell.wait(everyMs)
  }
}

function tell({ batches, bell }: Watcher, events: ComparisonEvent[]): void {
  batches.push(events)
  bell.notify()
}

/** The first look is nobody's news: each watcher begins with one of its own. */
const isNews = (found: Look, last: Look | undefined): boolean =>
  found.isOver || (last !== undefined && (found.text !== last.text || found.events.length > 1))

type Look = { events: ComparisonEvent[]; snapshot: string; text: string; isOver: boolean }

/** The snapshot is taken first: what happens while we look is seen again next time, and never missed. */
async function look(db: Db, key: number, since: string | undefined): Promise<Look> {
  const snapshot = await currentSnapshot(db)
  const row = await findByKey(db, key)
  const status = await readStatus(db, row)
  const changes = row && since !== undefined ? await readChanges(db, await namesOf(db, row), since) : []
  const isOver = ENDED.includes(status.state)
  return {
    snapshot,
    text: textOf(status),
    isOver,
    events: [
      ...changes.map((data): ComparisonEvent => ({ event: 'trial', data })),
      { event: 'status', data: status, id: snapshot },
      ...(isOver ? [{ event: 'end' as const, data: { state: status.state } }] : []),
    ],
  }
}

/** Without what changes by the mere passing of time. */
const textOf = (status: Comparison): string => JSON.stringify({ ...status, etaSeconds: null })
