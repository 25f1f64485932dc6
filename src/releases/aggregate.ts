import { frontier, type Point } from '../comparisons/frontier.ts'
import type { Outcome } from '../comparisons/outcome.ts'
import { type Cell, type Chosen, type Cohort, chosenCohort } from './cohort.ts'

/** What a setting is, as the newest comparison that ran it says. */
export type SettingFact = {
  id: string
  model: { catalogId: string; name: string; label: string }
  harness: string
  reasoningLevel: string
  provider: string
  custom: boolean
  /** Of the kind that only shows that tasks work. */
  isReference: boolean
}

type Unpublishable = 'reference' | 'no_results' | 'cost_unknown'

/** A setting with all that is known of it in a repository. */
export type Result = SettingFact & {
  cohort: Cohort | null
  isolation: string | null
  cells: Cell[]
  errored: number
  voided: number
  reason: Unpublishable | undefined
}

/** Every setting that was ever run, by id. Neither the order of trials nor that of settings matters. */
export function resultsOf(
  settings: readonly SettingFact[],
  trials: readonly Outcome[],
  approved: ReadonlySet<string>,
): Result[] {
  const bySetting = Map.groupBy(trials, ({ setting }) => setting)
  return settings
    .map((setting) => resultOf(setting, bySetting.get(setting.id) ?? [], approved))
    .sort((a, b) => (a.id < b.id ? -1 : 1))
}

function resultOf(setting: SettingFact, trials: Outcome[], approved: ReadonlySet<string>): Result {
  const found = chosenCohort(trials, approved)
  return {
    ...setting,
    cohort: found?.cohort ?? null,
    isolation: found?.isolation ?? null,
    cells: found?.cells ?? [],
    errored:
      found?.errored ?? new Set(trials.filter(({ state }) => state === 'errored').map(({ trial }) => trial)).size,
    voided: new Set(trials.filter(({ isVoided }) => isVoided).map(({ trial }) => trial)).size,
    reason: reasonOf(setting, found),
  }
}

function reasonOf({ isReference }: SettingFact, found: Chosen | undefined): Unpublishable | undefined {
  if (isReference) return 'reference'
  if (!found) return 'no_results'
  return found.cells.some(({ costMicros }) => costMicros === null) ? 'cost_unknown' : undefined
}

/** The tasks of a release: those that at least one chosen setting has a result for. In order. */
export function tasksOf(chosen: readonly Result[]): string[] {
  const known = tasksOfChosen.get(chosen)
  if (known) return known
  const tasks = new Set<string>()
  for (const { cells } of chosen) for (const { task } of cells) tasks.add(task)
  const sorted = [...tasks].sort()
  tasksOfChosen.set(chosen, sorted)
  return sorted
}

/** Asked for by everyone who looks at a selection. */
const tasksOfChosen = new WeakMap<readonly Result[], string[]>()

export const passedOf = ({ cells }: Result): number => cells.filter(({ passed }) => passed).length

/** In whole micro-dollars. Null when the cost of one is not known, or there is nothing. */
export function microsOf({ cells }: Result): number | null {
  if (cells.length === 0 || cells.some(({ costMicros }) => costMicros === null)) return null
  return cells.reduce((sum, { costMicros }) => sum + (costMicros ?? 0), 0)
}

/** Whether it has a result for each of the tasks. */
export function isComplete({ cells }: Result, tasks: readonly string[]): boolean {
  const own = new Set(cells.map(({ task }) => task))
  return tasks.length > 0 && tasks.every((task) => own.has(task))
}

/** Among the chosen ones that can be published and have no gap: those that no other beats. */
export const frontierOf = (chosen: readonly Result[]): string[] => {
  const tasks = tasksOf(chosen)
  return frontier(chosen.filter((result) => isComplete(result, tasks)).flatMap(pointOf))
}

function pointOf(result: Result): Point[] {
  const micros = microsOf(result)
  if (result.reason !== undefined || micros === null) return []
  return [{ id: result.id, tasks: result.cells.length, passed: passedOf(result), micros }]
}

const MILLION = 1_000_000

export const usdOf = (micros: number): number => micros / MILLION
