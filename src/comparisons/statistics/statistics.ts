import type { Db } from '../../platform/db/db.ts'
import { openThreads } from '../../platform/threads/threads.ts'
import type { ComparisonStatistics } from '../../statistics/comparison-statistics.ts'
import type { SettingResults } from '../../statistics/pairs.ts'
import type { ComparisonRow } from '../sql.ts'
import { currentSnapshot } from '../trials/sql.ts'
import { computeEncoded, decodeResults, type EncodedComparison } from './decode-results.ts'
import { hasScoredSince, listResultRows } from './sql.ts'
import type { StatisticsTasks } from './thread-tasks.ts'

/** The fields of a comparison that its results depend on. */
export type MeasuredComparison = Pick<ComparisonRow, 'key' | 'tasks' | 'settings'>

export type StatisticsCache = ReturnType<typeof createStatisticsCache>

type CachedStatistics = { snapshot: string; statistics: Promise<ComparisonStatistics> }

/** Maximum number of comparisons whose statistics are kept. */
const CACHED_MAX = 100

/** Caches the statistics of comparisons until one of their scored trials changes. One cache per database. */
export function createStatisticsCache() {
  const cached = new Map<number, CachedStatistics>()

  const load = async (db: Db, comparison: MeasuredComparison): Promise<ComparisonStatistics> => {
    const { key } = comparison
    const known = cached.get(key)
    if (known && !(await hasScoredSince(db, key, known.snapshot))) return keep(key, known)
    // Taken before the results are read, so that a concurrent change is seen by the next check.
    const snapshot = await currentSnapshot(db)
    if (cached.get(key) !== known) return load(db, comparison) // another request is computing them
    return keep(key, { snapshot, statistics: computeStatisticsOf(db, comparison) })
  }

  /** Stores an entry as the most recently used one. A failed computation is not kept. */
  const keep = (key: number, entry: CachedStatistics): Promise<ComparisonStatistics> => {
    cached.delete(key)
    cached.set(key, entry)
    const [oldest] = cached.keys()
    if (cached.size > CACHED_MAX && oldest !== undefined) cached.delete(oldest)
    entry.statistics.catch(() => cached.get(key) === entry && cached.delete(key))
    return entry.statistics
  }

  return { load }
}

const threads = openThreads<StatisticsTasks>(new URL('./thread-tasks.ts', import.meta.url), {
  timeoutMs: 60_000,
  memoryMb: 512,
})

/** Settings × tasks that are computed faster than they can be passed to a thread: a few milliseconds. */
const SMALL_CELLS = 1000

/** Computes the statistics without a cache. Large comparisons are computed in a thread. */
export async function computeStatisticsOf(db: Db, comparison: MeasuredComparison): Promise<ComparisonStatistics> {
  const input = await loadEncoded(db, comparison)
  return input.settings * input.tasks <= SMALL_CELLS ? computeEncoded(input) : threads.run('computeEncoded', input)
}

/** Loads the results of all settings, one element per task. */
export const loadResults = async (db: Db, comparison: MeasuredComparison): Promise<SettingResults[]> =>
  decodeResults(await loadEncoded(db, comparison))

const loadEncoded = async (db: Db, { key, settings, tasks }: MeasuredComparison): Promise<EncodedComparison> => ({
  settings,
  tasks: tasks ?? 0,
  rows: tasks === null ? [] : await listResultRows(db, key),
})
