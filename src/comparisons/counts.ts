import type { PlannedTrial } from './plan.ts'
import type { TrialState } from './shapes/schema.ts'

/** Counters of one setting, named like the columns of `trial_counts`. */
export type SettingCounts = Record<TrialState, number> & {
  reused: number
  spent_micros: number
  /** Number of trials in `spent_micros` and `spent_squares`. */
  metered: number
  /** Sum of squared costs, for the standard deviation. */
  spent_squares: number
} & CellCounts

/**
 * Contribution of a cell (one task with one setting) to the counts of the setting. All zero until a trial of it is
 * scored.
 */
type CellCounts = {
  tasks: number
  tasks_passed: number
  tasks_micros: number
  tasks_unpriced: number
  /** Share of scored attempts that passed, in units of 1 / `SHARE_UNIT`; summed over the tasks of a setting. */
  shares: number
  /** Sum of the squared shares, for the standard deviation. */
  share_squares: number
}

/** The fields of a trial that the results of its task depend on. */
export type CellTrial = { attempt: number; state: TrialState; costMicros: number | null; voided: boolean }

/** Number of count rows per setting. Concurrent updates of one setting are spread over them. */
const PARTS_PER_SETTING = 4
/** Least common multiple of 1 to 10: the pass share of a task with up to 10 attempts is a whole number of units. */
export const SHARE_UNIT = 2520

const NO_CELL_COUNTS: CellCounts = {
  tasks: 0,
  tasks_passed: 0,
  tasks_micros: 0,
  tasks_unpriced: 0,
  shares: 0,
  share_squares: 0,
}

export const NO_COUNTS: SettingCounts = {
  queued: 0,
  running: 0,
  passed: 0,
  failed: 0,
  errored: 0,
  canceled: 0,
  reused: 0,
  spent_micros: 0,
  metered: 0,
  spent_squares: 0,
  ...NO_CELL_COUNTS,
}

/** Counts one task. The result is the first scored attempt, never the best; the pass share covers all scored attempts. */
export function countCell(trials: readonly CellTrial[]): CellCounts {
  const scored = trials.filter(({ state, voided }) => !voided && (state === 'passed' || state === 'failed'))
  const [first] = scored.toSorted((a, b) => a.attempt - b.attempt)
  if (!first) return NO_CELL_COUNTS
  const share = (SHARE_UNIT * scored.filter(({ state }) => state === 'passed').length) / scored.length
  return {
    tasks: 1,
    tasks_passed: first.state === 'passed' ? 1 : 0,
    tasks_micros: first.costMicros ?? 0,
    tasks_unpriced: first.costMicros === null ? 1 : 0,
    shares: share,
    share_squares: share ** 2,
  }
}

/** Amounts that are added to counts. */
export type CountChanges = Partial<SettingCounts>

/** Names of all counters. The filter removes none; it only narrows the type. */
export const COUNT_NAMES = Object.keys(NO_COUNTS).filter((name): name is keyof SettingCounts => name in NO_COUNTS)

export const sumCounts = (all: readonly CountChanges[]): SettingCounts => {
  const sum = { ...NO_COUNTS }
  for (const counts of all) for (const name of COUNT_NAMES) sum[name] += counts[name] ?? 0
  return sum
}

/** Returns the difference that a change of trials makes to the counts of their cell. */
export function diffCell(before: readonly CellTrial[], after: readonly CellTrial[]): CountChanges {
  const [old, current] = [countCell(before), countCell(after)]
  return {
    tasks: current.tasks - old.tasks,
    tasks_passed: current.tasks_passed - old.tasks_passed,
    tasks_micros: current.tasks_micros - old.tasks_micros,
    tasks_unpriced: current.tasks_unpriced - old.tasks_unpriced,
    shares: current.shares - old.shares,
    share_squares: current.share_squares - old.share_squares,
  }
}

/** 2^32 divided by the golden ratio: multiplying by it spreads consecutive numbers evenly (Fibonacci hashing). */
const HASH_FACTOR = 0x9e3779b1

/**
 * Returns the number of the count row that a trial updates, one of `PARTS_PER_SETTING`. The ordinal is hashed: trials of
 * one setting have ordinals with a constant step, which a plain modulo could map to the same row.
 */
export const toCountPart = (ordinal: number): number => (Math.imul(ordinal, HASH_FACTOR) >>> 16) % PARTS_PER_SETTING

export type CountRow = SettingCounts & { setting: number; part: number }

/** Builds the count rows of a new comparison: planned trials are queued, reused trials are already counted. */
export function buildInitialCounts(settings: number, trials: readonly PlannedTrial[]): CountRow[] {
  const rows = Array.from({ length: settings * PARTS_PER_SETTING }, (_, index) => ({
    ...NO_COUNTS,
    setting: Math.floor(index / PARTS_PER_SETTING),
    part: index % PARTS_PER_SETTING,
  }))
  for (const trial of trials) {
    const row = rows[trial.setting * PARTS_PER_SETTING + toCountPart(trial.ordinal)]
    if (!row) continue
    row[trial.reused?.state ?? 'queued'] += 1
    row.reused += trial.reused ? 1 : 0
  }
  const reused = trials.filter((trial) => trial.reused)
  const cells = Map.groupBy(reused, ({ setting, task }) => `${setting} ${task}`)
  for (const cell of cells.values()) addCell(rows, cell)
  return rows
}

function addCell(rows: CountRow[], cell: PlannedTrial[]): void {
  const row = rows[(cell[0]?.setting ?? 0) * PARTS_PER_SETTING]
  const trials = cell.flatMap(({ attempt, reused }) =>
    reused ? [{ attempt, state: reused.state, costMicros: reused.costMicros, voided: false }] : [],
  )
  if (row) Object.assign(row, sumCounts([row, countCell(trials)]))
}
