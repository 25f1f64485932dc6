import type { ComparisonMatrix, TrialChange } from '../../../src/comparisons/shapes/schema.ts'

/** Combined state of the trials in a cell. */
export type CellState = 'passed' | 'failed' | 'mixed' | 'errored' | 'running' | 'queued' | 'canceled' | 'none'

/**
 * The trials of one task with one setting. `letters` has one letter per attempt, the initial of its state; `share` is the
 * share of scored trials that passed.
 */
type Cell = { state: CellState; share: number; letters: string }

export type TaskOrder = 'plan' | 'difficulty'

/** Applies changed trials to a matrix. Changes of unknown tasks or settings are ignored. */
export function applyChanges(matrix: ComparisonMatrix, changes: readonly TrialChange[]): ComparisonMatrix {
  const positions = new Map(matrix.settings.map((id, position) => [id, position]))
  const changesByTask = Map.groupBy(changes, ({ task }) => task)
  const tasks = matrix.tasks.map((task) => {
    const taskChanges = changesByTask.get(task.name)
    if (!taskChanges) return task
    const cells = [...task.cells]
    for (const { settingId, attempt, state } of taskChanges) {
      const position = positions.get(settingId)
      const initial = state.slice(0, 1)
      if (position !== undefined) cells[position * matrix.attempts + attempt - 1] = initial
    }
    return { ...task, cells: cells.join('') }
  })
  return { ...matrix, tasks }
}

/** Returns the cell of a task and a setting, given by their positions in the matrix. */
export const toCell = ({ attempts, tasks }: ComparisonMatrix, task: number, setting: number): Cell =>
  readCell(tasks[task]?.cells ?? '', attempts, setting)

/** Reads the cell of the setting at a position from the letters of a task. */
export function readCell(cells: string, attempts: number, setting: number): Cell {
  const letters = cells.slice(setting * attempts, (setting + 1) * attempts)
  const passed = countLetter(letters, 'p')
  const scored = passed + countLetter(letters, 'f')
  const share = scored === 0 ? 0 : passed / scored
  return { letters, share, state: toState(letters, scored, share) }
}

/** Counts a letter without allocating, because maps have up to 100,000 cells. */
function countLetter(letters: string, letter: string): number {
  let count = 0
  for (let index = letters.indexOf(letter); index >= 0; index = letters.indexOf(letter, index + 1)) count++
  return count
}

function toState(letters: string, scored: number, share: number): CellState {
  if (letters.includes('r')) return 'running'
  if (scored > 0 && share === 1) return 'passed'
  if (scored > 0) return share === 0 ? 'failed' : 'mixed'
  if (letters.includes('q')) return 'queued'
  if (letters.includes('e')) return 'errored'
  return letters.includes('c') ? 'canceled' : 'none'
}

/**
 * Returns the positions of the tasks in display order: as planned, or easiest first. `countedSettings` has the positions of
 * the settings that determine the difficulty. They leave out the controls, which solve everything or nothing.
 */
export function orderTasks(matrix: ComparisonMatrix, order: TaskOrder, countedSettings: readonly number[]): number[] {
  const positions = matrix.tasks.map((_, position) => position)
  if (order === 'plan') return positions
  const shares = matrix.tasks.map(({ cells }) => computeSolvedShare(matrix, cells, countedSettings))
  return positions.toSorted((a, b) => (shares[b] ?? -1) - (shares[a] ?? -1) || a - b)
}

const PASSED_CODE = 'p'.charCodeAt(0)
const FAILED_CODE = 'f'.charCodeAt(0)

/**
 * Returns the share of a task's scored trials that passed, or -1 without a result. Compares character codes, which is
 * faster than comparing texts.
 */
function computeSolvedShare({ attempts }: ComparisonMatrix, cells: string, countedSettings: readonly number[]): number {
  let [passed, failed] = [0, 0]
  for (const setting of countedSettings)
    for (let index = setting * attempts; index < (setting + 1) * attempts; index++) {
      const code = cells.charCodeAt(index)
      if (code === PASSED_CODE) passed += 1
      else if (code === FAILED_CODE) failed += 1
    }
  return passed + failed === 0 ? -1 : passed / (passed + failed)
}

/** Neighbouring columns with tasks of similar difficulty, from index `from` up to but not including `to`. */
type TaskGroup = { label: string; from: number; to: number }

const SHARE_GROUPS: readonly { label: string; contains: (share: number) => boolean }[] = [
  { label: 'solved by all', contains: (share) => share === 1 },
  { label: 'by most', contains: (share) => share >= 0.5 && share < 1 },
  { label: 'by few', contains: (share) => share > 0 && share < 0.5 },
  { label: 'by none', contains: (share) => share === 0 },
  { label: 'no result', contains: (share) => share < 0 },
]

/** Groups tasks by difficulty. `ordered` has their positions, ordered by difficulty. */
export function groupTasks(
  matrix: ComparisonMatrix,
  ordered: readonly number[],
  countedSettings: readonly number[],
): TaskGroup[] {
  const shares = ordered.map((position) =>
    computeSolvedShare(matrix, matrix.tasks[position]?.cells ?? '', countedSettings),
  )
  return SHARE_GROUPS.flatMap(({ label, contains }) => {
    const from = shares.findIndex(contains)
    return from < 0 ? [] : [{ label, from, to: shares.findLastIndex(contains) + 1 }]
  })
}

/** Returns the positions of settings, the most accurate first and settings without a result last. */
export const orderSettings = (settingIds: readonly string[], accuracyOf: (id: string) => number | null): number[] =>
  settingIds
    .map((id, position) => ({ position, accuracy: accuracyOf(id) ?? -1 }))
    .toSorted((a, b) => b.accuracy - a.accuracy || a.position - b.position)
    .map(({ position }) => position)
