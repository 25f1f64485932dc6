import type { TrialOutcome } from '../comparisons/outcome.ts'
import type { NamedConfiguration } from '../configurations/schema.ts'
import { listFrontier, type Point } from '../statistics/frontier.ts'
import { type Cohort, type CohortResult, type ResultCell, selectCohort } from './cohort.ts'

/** Description of a setting, taken from the newest comparison that ran it. */
export type SettingFact = {
  id: string
  model: { catalogId: string; name: string; label: string }
  harness: string
  reasoningLevel: string
  provider: string
  custom: boolean
  configuration?: NamedConfiguration | undefined
  /** Undefined if the time limits are unchanged. */
  timeoutMultiplier?: number | undefined
  /** True for `oracle` and `nop`, which only show that the tasks work. */
  isReference: boolean
}

/** Reasons why a setting cannot be published. `reference`: it calls no model. */
export type UnpublishableReason = 'reference' | 'no_results' | 'cost_unknown'

/** A setting with all its results in a repository. */
export type SettingResult = SettingFact & {
  cohort: Cohort | null
  isolation: string | null
  cells: ResultCell[]
  errored: number
  voided: number
  reason: UnpublishableReason | undefined
}

/** Builds the results of every setting that was ever run, sorted by id. Independent of the order of the input. */
export function buildResults(
  settings: readonly SettingFact[],
  trials: readonly TrialOutcome[],
  approved: ReadonlySet<string>,
): SettingResult[] {
  const bySetting = Map.groupBy(trials, ({ setting }) => setting)
  return settings
    .map((setting) => buildResult(setting, bySetting.get(setting.id) ?? [], approved))
    .sort((a, b) => (a.id < b.id ? -1 : 1))
}

function buildResult(setting: SettingFact, trials: TrialOutcome[], approved: ReadonlySet<string>): SettingResult {
  const selected = selectCohort(trials, approved)
  return {
    ...setting,
    cohort: selected?.cohort ?? null,
    isolation: selected?.isolation ?? null,
    cells: selected?.cells ?? [],
    errored: selected?.errored ?? countDistinct(trials.filter(({ state }) => state === 'errored')),
    voided: countDistinct(trials.filter(({ isVoided }) => isVoided)),
    reason: findUnpublishableReason(setting, selected),
  }
}

/** Counts trials. A trial that several comparisons use counts once. */
const countDistinct = (trials: readonly TrialOutcome[]): number => new Set(trials.map(({ trial }) => trial)).size

function findUnpublishableReason(
  { isReference }: SettingFact,
  selected: CohortResult | undefined,
): UnpublishableReason | undefined {
  if (isReference) return 'reference'
  if (!selected) return 'no_results'
  return selected.cells.some(({ costMicros }) => costMicros === null) ? 'cost_unknown' : undefined
}

/** Lists the tasks of a release: those for which a chosen setting has a result. Sorted. */
export function listTasks(chosen: readonly SettingResult[]): string[] {
  const cached = taskListCache.get(chosen)
  if (cached) return cached
  const tasks = new Set<string>()
  for (const { cells } of chosen) for (const { task } of cells) tasks.add(task)
  const sorted = [...tasks].sort()
  taskListCache.set(chosen, sorted)
  return sorted
}

/** Sorted task lists per selection, because several functions need them. */
const taskListCache = new WeakMap<readonly SettingResult[], string[]>()

export const countPassed = ({ cells }: SettingResult): number => cells.filter(({ passed }) => passed).length

/** Returns the total cost in micro-dollars. Null if there are no results or the cost of one is unknown. */
export function sumCostMicros({ cells }: SettingResult): number | null {
  if (cells.length === 0 || cells.some(({ costMicros }) => costMicros === null)) return null
  return cells.reduce((sum, { costMicros }) => sum + (costMicros ?? 0), 0)
}

/** Returns true if the setting has a result for every task. */
export function isComplete({ cells }: SettingResult, tasks: readonly string[]): boolean {
  const tasksWithResult = new Set(cells.map(({ task }) => task))
  return tasks.length > 0 && tasks.every((task) => tasksWithResult.has(task))
}

/** Computes the frontier of the publishable settings that have a result for every task. */
export const computeFrontier = (chosen: readonly SettingResult[]): string[] => {
  const tasks = listTasks(chosen)
  return listFrontier(chosen.filter((result) => isComplete(result, tasks)).flatMap(toPoints))
}

function toPoints(result: SettingResult): Point[] {
  const micros = sumCostMicros(result)
  if (result.reason !== undefined || micros === null) return []
  return [{ id: result.id, tasks: result.cells.length, passed: countPassed(result), micros }]
}

/** A setting of the frontier with the numbers that picks are based on. */
type PickCandidate = { id: string; tasks: number; passed: number }

type PickRole = 'cheapest' | 'most-accurate' | 'best-value'
export type SettingPick = { id: string; roles: PickRole[] }

/** Minimum number of tasks for `best-value`: with fewer, hardly any setting is shown to be worse. */
const BEST_VALUE_TASKS_MIN = 20

/**
 * Chooses the settings that readers should look at first. The frontier is sorted by cost, exact ties by id. `isWorse`
 * returns whether a setting is significantly less accurate than another.
 */
export function choosePicks(
  frontier: readonly PickCandidate[],
  isWorse: (id: string, than: string) => boolean,
): SettingPick[] {
  const cheapest = frontier[0]
  if (!cheapest) return []
  const mostAccurate = frontier.reduce((best, each) => (isMoreAccurate(each, best) ? each : best), cheapest)
  const roles: [string, PickRole][] = [
    [cheapest.id, 'cheapest'],
    [mostAccurate.id, 'most-accurate'],
  ]
  const bestValue = frontier.find(({ id }) => id === mostAccurate.id || !isWorse(id, mostAccurate.id))
  if (bestValue && mostAccurate.tasks >= BEST_VALUE_TASKS_MIN) roles.push([bestValue.id, 'best-value'])
  return [...Map.groupBy(roles, ([id]) => id)].map(([id, group]) => ({ id, roles: group.map(([, role]) => role) }))
}

/** Compares two shares of passed tasks exactly. */
const isMoreAccurate = (a: PickCandidate, b: PickCandidate): boolean =>
  BigInt(a.passed) * BigInt(b.tasks) > BigInt(b.passed) * BigInt(a.tasks)
