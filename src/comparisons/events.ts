import { type ConcurrencyLimit, createConcurrencyLimit } from '../platform/concurrency.ts'
import type { Db } from '../platform/db/db.ts'
import { createWakeSignal, type WakeSignal } from '../platform/db/notices.ts'
import { readStatus, readStatusWithStatistics } from './comparisons.ts'
import type { Comparison } from './shapes/schema.ts'
import { findComparisonByKey } from './sql.ts'
import type { StatisticsCache } from './statistics/statistics.ts'
import { readCurrentSnapshot } from './trials/sql.ts'
import { loadComparisonAxes, readChanges } from './trials/trials.ts'

/** A server-sent event. The id is a PostgreSQL snapshot: everything visible in it has been reported. */
type ComparisonEvent = { event: 'status' | 'trial' | 'end'; data: unknown; id?: string }

const POLL_MS = 500
/** Maximum number of comparisons that are polled at once, so that many watched ones leave connections for requests. */
const POLLS_MAX = 2
/** Watchers with more unsent batches are disconnected. They reconnect with the last event id they received. */
const BATCHES_MAX = 50
const SNAPSHOT_PATTERN = /^(\d{1,18}):(\d{1,18}):((?:\d{1,18}(?:,\d{1,18}){0,100})?)$/
const ENDED_STATES: readonly string[] = ['completed', 'canceled', 'submission_failed']

type Watcher = { batches: ComparisonEvent[][]; wake: WakeSignal }
type WatchedComparison = { watchers: Set<Watcher>; wake: WakeSignal }

export type ComparisonEvents = ReturnType<typeof createComparisonEvents>

/** Event streams of comparisons. Each watched comparison is polled once per process, however many clients watch it. */
export function createComparisonEvents(db: Db, statistics: StatisticsCache) {
  const watched = new Map<number, WatchedComparison>()
  const limitPolls = createConcurrencyLimit(POLLS_MAX)

  const join = (key: number, watcher: Watcher): void => {
    const existing = watched.get(key)
    if (existing) {
      existing.watchers.add(watcher)
      return
    }
    const added = { watchers: new Set([watcher]), wake: createWakeSignal() }
    watched.set(key, added)
    void pollComparison({ db, statistics, limitPolls }, key, added).finally(() => {
      if (watched.get(key) === added) watched.delete(key)
    })
  }
  const leave = (key: number, watcher: Watcher): void => {
    const existing = watched.get(key)
    existing?.watchers.delete(watcher)
    if (existing?.watchers.size === 0) existing.wake.notify()
  }

  return {
    /** Yields the changes since `lastId`, the current status, then every change. Ends with the comparison. */
    async *follow(key: number, lastId: string | undefined, signal: AbortSignal): AsyncGenerator<ComparisonEvent> {
      const watcher: Watcher = { batches: [], wake: createWakeSignal() }
      join(key, watcher)
      signal.addEventListener('abort', watcher.wake.notify)
      try {
        const { events, isOver } = await observe({ db, statistics }, key, isSnapshot(lastId) ? lastId : undefined)
        yield* events
        if (!isOver) yield* yieldBatches(watcher, signal)
      } finally {
        signal.removeEventListener('abort', watcher.wake.notify)
        leave(key, watcher)
      }
    },
  }
}

/** Returns true for the text form of a `pg_snapshot`: `xmin:xmax:xip_list`, with ascending ids. Event ids are client input. */
function isSnapshot(text: string | undefined): text is string {
  const [, first, next, open = ''] = SNAPSHOT_PATTERN.exec(text ?? '') ?? []
  if (first === undefined || next === undefined) return false
  const numbers = [first, ...(open === '' ? [] : open.split(',')), next].map(BigInt)
  return numbers.every((number, index) => number > 0n && number >= (numbers[index - 1] ?? 1n))
}

/** Watchers are woken when a batch arrives or their request ends. This only bounds a single wait. */
const WAIT_MS = 60_000

async function* yieldBatches({ batches, wake }: Watcher, signal: AbortSignal): AsyncGenerator<ComparisonEvent> {
  while (!signal.aborted && batches.length < BATCHES_MAX) {
    const batch = batches.shift() ?? []
    yield* batch
    if (batch.at(-1)?.event === 'end') return
    if (batches.length === 0) await wake.wait(WAIT_MS)
  }
}

/** Polls until the comparison ends or has no watchers. Database errors are ignored; the next poll retries. */
async function pollComparison(
  { limitPolls, ...deps }: ObserveDeps & { limitPolls: ConcurrencyLimit },
  key: number,
  { watchers, wake }: WatchedComparison,
): Promise<void> {
  let previous: Observation | undefined
  while (watchers.size > 0 && !previous?.isOver) {
    const current = await limitPolls(() => observe(deps, key, previous?.snapshot)).catch(() => undefined)
    if (current && hasChanged(current, previous)) for (const watcher of watchers) pushEvents(watcher, current.events)
    previous = current ?? previous
    await wake.wait(POLL_MS)
  }
}

function pushEvents({ batches, wake }: Watcher, events: ComparisonEvent[]): void {
  batches.push(events)
  wake.notify()
}

/**
 * Returns true if watchers must be notified. The first observation is not sent: every watcher starts with its own. Each
 * observation has a status event; further events are changed trials or the end.
 */
const hasChanged = (current: Observation, previous: Observation | undefined): boolean =>
  current.isOver ||
  (previous !== undefined && (current.statusText !== previous.statusText || current.events.length > 1))

type ObserveDeps = { db: Db; statistics: StatisticsCache }
type Observation = { events: ComparisonEvent[]; snapshot: string; statusText: string; isOver: boolean }

/** Reads status and changes. The snapshot is taken first, so concurrent changes are repeated rather than missed. */
async function observe({ db, statistics }: ObserveDeps, key: number, since: string | undefined): Promise<Observation> {
  const snapshot = await readCurrentSnapshot(db)
  const row = await findComparisonByKey(db, key)
  // Statistics are added only after the end. While trials run, they would have to be computed at every poll.
  const hasEnded = row !== undefined && ENDED_STATES.includes(row.state)
  const status = hasEnded ? await readStatusWithStatistics(db, statistics, row) : await readStatus(db, row)
  const changes = row && since !== undefined ? await readChanges(db, await loadComparisonAxes(db, row), since) : []
  const isOver = ENDED_STATES.includes(status.state)
  return {
    snapshot,
    statusText: serializeStatus(status),
    isOver,
    events: [
      ...changes.map((data): ComparisonEvent => ({ event: 'trial', data })),
      { event: 'status', data: status, id: snapshot },
      ...(isOver ? [{ event: 'end' as const, data: { state: status.state } }] : []),
    ],
  }
}

/** Serializes a status without the ETA, which changes with time alone. */
const serializeStatus = (status: Comparison): string => JSON.stringify({ ...status, etaSeconds: null })
