import type { Db } from '../../platform/db/db.ts'
import { openThreads } from '../../platform/threads.ts'
import type { ComparisonStatistics } from '../../statistics/comparison-statistics.ts'
import type { SettingResults } from '../../statistics/pairs.ts'
import type { ComparisonRow } from '../sql.ts'
import { readCurrentSnapshot } from '../trials/sql.ts'
import { listScoredSince, listScoredTrials } from './sql.ts'
import type { StatisticsTasks } from './thread-tasks.ts'
import {
  applyChanges,
  buildGrid,
  type ChangedTrial,
  computeGridStatistics,
  type TrialGrid,
  toResults,
} from './trial-grid.ts'

/** The fields of a comparison that its results depend on. */
type MeasuredComparison = Pick<ComparisonRow, 'key' | 'tasks' | 'settings' | 'attempts'>

export type StatisticsCache = ReturnType<typeof createStatisticsCache>

type CachedStatistics = {
  /** Null until the tasks are frozen. */
  tasks: number | null
  /** Every change that this PostgreSQL snapshot shows is contained. */
  snapshot: string
  grid: Promise<TrialGrid>
  statistics: Promise<ComparisonStatistics>
}

/** Maximum number of cached comparisons. The largest take about 2 MB. */
const CACHED_MAX = 50
/** Maximum number of changed trials that are read one by one. Beyond it, all trials are read again. */
const CHANGES_MAX = 10_000

/** Caches the results and statistics of comparisons until a scored trial changes. One cache per database. */
export function createStatisticsCache() {
  const cached = new Map<number, CachedStatistics>()

  const load = async (db: Db, comparison: MeasuredComparison): Promise<CachedStatistics> => {
    const { key, tasks } = comparison
    const entry = cached.get(key)
    const known = entry?.tasks === tasks ? entry : undefined
    // The snapshot is taken before the changes are read, so that a concurrent change is at worst applied twice.
    const snapshot = await readCurrentSnapshot(db)
    const changes = known ? await listScoredSince(db, key, known.snapshot, CHANGES_MAX) : undefined
    if (cached.get(key) !== entry) return load(db, comparison) // Another request has started a computation.
    if (known && changes?.length === 0) return storeEntry(key, known)
    const grid = updateGrid(known?.grid, changes) ?? loadGrid(db, comparison)
    return storeEntry(key, { tasks, snapshot, grid, statistics: grid.then(computeInThreadIfLarge) })
  }

  /** Stores an entry as the most recently used one. A failed computation is removed. */
  const storeEntry = (key: number, entry: CachedStatistics): CachedStatistics => {
    cached.delete(key)
    cached.set(key, entry)
    const [oldest] = cached.keys()
    if (cached.size > CACHED_MAX && oldest !== undefined) cached.delete(oldest)
    entry.statistics.catch(() => {
      if (cached.get(key) === entry) cached.delete(key)
    })
    return entry
  }

  return {
    load: async (db: Db, comparison: MeasuredComparison): Promise<ComparisonStatistics> =>
      (await load(db, comparison)).statistics,
    /** Loads the results of all settings, one element per task. */
    loadResults: async (db: Db, comparison: MeasuredComparison): Promise<SettingResults[]> =>
      toResults(await (await load(db, comparison)).grid),
  }
}

/** Applies changes to a known grid. Undefined if all trials have to be read. */
function updateGrid(
  known: Promise<TrialGrid> | undefined,
  changes: readonly ChangedTrial[] = [],
): Promise<TrialGrid> | undefined {
  return changes.length < CHANGES_MAX ? known?.then((grid) => applyChanges(grid, changes)) : undefined
}

/** Computes the statistics without a cache. */
export const computeComparisonStatistics = async (
  db: Db,
  comparison: MeasuredComparison,
): Promise<ComparisonStatistics> => computeInThreadIfLarge(await loadGrid(db, comparison))

const loadGrid = async (db: Db, { key, settings, tasks, attempts }: MeasuredComparison): Promise<TrialGrid> =>
  buildGrid({ settings, tasks: tasks ?? 0, attempts }, tasks === null ? [] : await listScoredTrials(db, key))

const threads = openThreads<StatisticsTasks>(new URL('./thread-tasks.ts', import.meta.url), {
  timeoutMs: 60_000,
  memoryMb: 512,
})

/** Maximum number of settings × tasks that are computed faster than they can be passed to a thread: a few milliseconds. */
const THREADLESS_CELLS_MAX = 1000

/** Computes large comparisons in a thread, because they would block the event loop. */
const computeInThreadIfLarge = async (grid: TrialGrid): Promise<ComparisonStatistics> =>
  grid.settings * grid.tasks <= THREADLESS_CELLS_MAX
    ? computeGridStatistics(grid)
    : threads.run('computeGridStatistics', grid)
