import type { Planned } from './plan.ts'
import type { TrialState } from './shapes/schema.ts'

/** What is counted for each setting, as it stands in the columns. */
export type Counts = Record<TrialState, number> & {
  reused: number
  spent_micros: number
  metered: number
  spent_squares: number
} & CellCounts

/** What a task adds to the results of a setting, once one of its trials is scored. */
export type CellCounts = {
  tasks: number
  tasks_passed: number
  tasks_micros: number
  tasks_unpriced: number
  shares: number
  share_squares: number
}

/** What matters of a trial to the results of its task. */
export type CellTrial = { attempt: number; state: TrialState; costMicros: number | null; voided: boolean }

/** The counts of a setting are kept in this many rows. */
const PARTS = 4
/** The least number that all of 1 to 10 divide: shares of passes stay exact. */
export const SHARE = 2520

export const NO_COUNTS: Counts = {
  ...{ queued: 0, running: 0, passed: 0, failed: 0, errored: 0, canceled: 0, reused: 0 },
  ...{ spent_micros: 0, metered: 0, spent_squares: 0 },
  ...{ tasks: 0, tasks_passed: 0, tasks_micros: 0, tasks_unpriced: 0, shares: 0, share_squares: 0 },
}

const NO_CELL: CellCounts = {
  tasks: 0,
  tasks_passed: 0,
  tasks_micros: 0,
  tasks_unpriced: 0,
  shares: 0,
  share_squares: 0,
}

/** The first scored attempt stands for the task, never the best; all of them make its share. */
export function cellCounts(trials: readonly CellTrial[]): CellCounts {
  const scored = trials.filter(({ state, voided }) => !voided && (state === 'passed' || state === 'failed'))
  const [first] = scored.toSorted((a, b) => a.attempt - b.attempt)
  if (!first) return NO_CELL
  const share = (SHARE * scored.filter(({ state }) => state === 'passed').length) / scored.length
  return {
    tasks: 1,
    tasks_passed: first.state === 'passed' ? 1 : 0,
    tasks_micros: first.costMicros ?? 0,
    tasks_unpriced: first.costMicros === null ? 1 : 0,
    shares: share,
    share_squares: share ** 2,
  }
}

type Changes = Partial<Counts>

export const NAMES = Object.keys(NO_COUNTS).filter((name): name is keyof Counts => name in NO_COUNTS)

export const sumOf = (all: readonly Changes[]): Counts => {
  const sum = { ...NO_COUNTS }
  for (const counts of all) for (const name of NAMES) sum[name] += counts[name] ?? 0
  return sum
}

/** What turns the counts of one cell into those of another. */
export function cellChange(before: readonly CellTrial[], after: readonly CellTrial[]): Changes {
  const [old, fresh] = [cellCounts(before), cellCounts(after)]
  return {
    tasks: fresh.tasks - old.tasks,
    tasks_passed: fresh.tasks_passed - old.tasks_passed,
    tasks_micros: fresh.tasks_micros - old.tasks_micros,
    tasks_unpriced: fresh.tasks_unpriced - old.tasks_unpriced,
    shares: fresh.shares - old.shares,
    share_squares: fresh.share_squares - old.share_squares,
  }
}

/** Scattered: ordinals that are near each other, or a whole number of settings apart, are in different parts. */
export const partOf = (ordinal: number): number => (Math.imul(ordinal, 0x9e3779b1) >>> 16) % PARTS

export type CountRow = Counts & { setting: number; part: number }

/** The counts with which a comparison begins: all that is to be done, and what was done before. */
export function firstCounts(settings: number, trials: readonly Planned[]): CountRow[] {
  const rows = Array.from({ length: settings * PARTS }, (_, index) => ({
    ...NO_COUNTS,
    setting: Math.floor(index / PARTS),
    part: index % PARTS,
  }))
  for (const trial of trials) {
    const row = rows[trial.setting * PARTS + partOf(trial.ordinal)]
    if (!row) continue
    row[trial.reused?.state ?? 'queued'] += 1
    row.reused += trial.reused ? 1 : 0
  }
  const reused = trials.filter((trial) => trial.reused)
  for (const cell of Map.groupBy(reused, ({ setting, task }) => `${setting} ${task}`).values()) addCell(rows, cell)
  return rows
}

function addCell(rows: CountRow[], cell: Planned[]): void {
  const row = rows[(cell[0]?.setting ?? 0) * PARTS]
  const trials = cell.flatMap(({ attempt, reused }) =>
    reused ? [{ attempt, state: reused.state, costMicros: reused.costMicros, voided: false }] : [],
  )
  if (row) Object.assign(row, sumOf([row, cellCounts(trials)]))
}
