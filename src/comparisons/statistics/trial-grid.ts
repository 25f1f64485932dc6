import { z } from 'zod'
import { type ComparisonStatistics, computeStatistics } from '../../statistics/comparison-statistics.ts'
import type { SettingResults } from '../../statistics/pairs.ts'

/** Scored trials of a comparison by setting, task and attempt: small enough to keep, and cheap to update. */
export type TrialGrid = {
  settings: number
  tasks: number
  attempts: number
  /** A code of `OUTCOMES`. */
  outcomes: Uint8Array
  /** NaN if unknown. */
  micros: Float64Array
}

const OUTCOMES = { none: 0, failed: 1, passed: 2 } as const

type GridShape = Pick<TrialGrid, 'settings' | 'tasks' | 'attempts'>

/** Scored trials of one setting, column by column as JSON text, which is much faster than a row per trial. */
export type EncodedTrials = { setting: number; tasks: string; attempts: string; outcomes: string; micros: string }

/** A scored trial that has changed. Voided trials count as not scored. */
export type ChangedTrial = {
  setting: number
  task: number
  attempt: number
  isPassed: boolean
  isVoided: boolean
  micros: number | null
}

// The database built the text from numbers. Validating every element would be slow.
const Numbers = z.custom<(number | null)[]>(Array.isArray)
const parseNumbers = (text: string): (number | null)[] => Numbers.parse(JSON.parse(text))

export function buildGrid(shape: GridShape, rows: readonly EncodedTrials[]): TrialGrid {
  const cells = shape.settings * shape.tasks * shape.attempts
  const grid = { ...shape, outcomes: new Uint8Array(cells), micros: new Float64Array(cells).fill(Number.NaN) }
  for (const row of rows) {
    const [attempts, passed, micros] = [row.attempts, row.outcomes, row.micros].map(parseNumbers)
    for (const [index, task] of parseNumbers(row.tasks).entries()) {
      const cell = { setting: row.setting, task: task ?? 0, attempt: attempts?.[index] ?? 0 }
      setCell(grid, cell, passed?.[index] ? OUTCOMES.passed : OUTCOMES.failed, micros?.[index] ?? null)
    }
  }
  return grid
}

/** Updates the grid in place. */
export function applyChanges(grid: TrialGrid, changes: readonly ChangedTrial[]): TrialGrid {
  for (const { isPassed, isVoided, micros, ...cell } of changes) {
    const outcome = isPassed ? OUTCOMES.passed : OUTCOMES.failed
    setCell(grid, cell, isVoided ? OUTCOMES.none : outcome, micros)
  }
  return grid
}

type GridCell = { setting: number; task: number; attempt: number }

function setCell(grid: TrialGrid, { setting, task, attempt }: GridCell, outcome: number, micros: number | null): void {
  if (task >= grid.tasks || attempt > grid.attempts) return
  const index = (setting * grid.tasks + task) * grid.attempts + attempt - 1
  grid.outcomes[index] = outcome
  grid.micros[index] = micros ?? Number.NaN
}

export const computeGridStatistics = (grid: TrialGrid): ComparisonStatistics => computeStatistics(toResults(grid))

/** Sums the trials of each task. The first scored trial decides about the result and the cost. */
export const toResults = (grid: TrialGrid): SettingResults[] =>
  Array.from({ length: grid.settings }, (_, setting) => {
    const results: SettingResults = {
      trials: new Float64Array(grid.tasks),
      passes: new Float64Array(grid.tasks),
      passed: new Float64Array(grid.tasks),
      micros: new Float64Array(grid.tasks).fill(Number.NaN),
    }
    for (let task = 0; task < grid.tasks; task++) sumCell(grid, { setting, task }, results)
    return results
  })

function sumCell(grid: TrialGrid, { setting, task }: Omit<GridCell, 'attempt'>, results: SettingResults): void {
  const firstIndex = (setting * grid.tasks + task) * grid.attempts
  let [trials, passes] = [0, 0]
  for (let index = firstIndex; index < firstIndex + grid.attempts; index++) {
    const outcome = grid.outcomes[index]
    if (outcome === OUTCOMES.none) continue
    const pass = outcome === OUTCOMES.passed ? 1 : 0
    if (trials === 0) {
      results.passed[task] = pass
      results.micros[task] = grid.micros[index] ?? Number.NaN
    }
    trials += 1
    passes += pass
  }
  results.trials[task] = trials
  results.passes[task] = passes
}
