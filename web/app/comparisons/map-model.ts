import type { ComparisonMatrix, TrialChange } from '../../../src/comparisons/shapes/schema.ts'

/** Combined state of the trials in a cell. */
export type CellState = 'passed' | 'failed' | 'mixed' | 'errored' | 'running' | 'queued' | 'canceled' | 'none'

/** `share` is the share of scored trials that passed. */
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
      if (position !== undefined) cells[position * matrix.attempts + attempt - 1] = state.slice(0, 1)
    }
    return { ...task, cells: cells.join('') }
  })
  return { ...matrix, tasks }
}

export const toCell = ({ attempts, tasks }: ComparisonMatrix, task: number, setting: number): Cell =>
  readCell(tasks[task]?.cells ?? '', attempts, setting)

/** Reads the cell of a setting from the cells of a task. */
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
  for (let at = letters.indexOf(letter); at >= 0; at = letters.indexOf(letter, at + 1)) count++
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
 * Returns the positions of the tasks in display order: as planned, or easiest first. Difficulty is measured on the settings
 * at the positions `countedSettings`, which leave out the controls: they solve everything or nothing.
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
 * Returns the share of scored trials that passed, or -1 without a result. Reads character codes, which is faster than
 * text.
 */
function computeSolvedShare({ attempts }: ComparisonMatrix, cells: string, countedSettings: readonly number[]): number {
  let [passed, failed] = [0, 0]
  for (const setting of countedSettings)
    for (let at = setting * attempts; at < (setting + 1) * attempts; at++) {
      const letter = cells.charCodeAt(at)
      if (letter === PASSED_CODE) passed += 1
      else if (letter === FAILED_CODE) failed += 1
    }
  return passed + failed === 0 ? -1 : passed / (passed + failed)
}

/** Neighbouring tasks of similar difficulty. */
type TaskGroup = { label: string; from: number; to: number }

const SHARE_GROUPS: readonly { label: string; contains: (share: number) => boolean }[] = [
  { label: 'solved by all', contains: (share) => share === 1 },
  { label: 'by most', contains: (share) => share >= 0.5 && share < 1 },
  { label: 'by few', contains: (share) => share > 0 && share < 0.5 },
  { label: 'by none', contains: (share) => share === 0 },
  { label: 'no result', contains: (share) => share < 0 },
]

/** Groups tasks that are ordered by difficulty. `from` and `to` are indexes in `ordered`. */
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

/** Returns positions of settings, the most accurate first. */
export const orderSettings = (settingIds: readonly string[], accuracy: (id: string) => number | null): number[] =>
  settingIds
    .map((id, position) => ({ position, value: accuracy(id) ?? -1 }))
    .toSorted((a, b) => b.value - a.value || a.position - b.position)
    .map(({ position }) => position)
