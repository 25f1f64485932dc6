import type { Db } from '../../platform/db/db.ts'
import { decideVerdicts, measurePair, type SettingResults } from '../../statistics/pairs.ts'
import { type ComparisonRow, listSettingRows } from '../sql.ts'
import { type ComparisonAxes, loadComparisonAxes } from '../trials/trials.ts'
import { buildNoSharedTasksProblem, toTaskScore, toWireDifference } from './pairs.ts'
import type { ComparisonDiff } from './schema.ts'
import type { StatisticsCache } from './statistics.ts'

/** Compares the settings that two comparisons have in common, paired by task. */
export async function diffComparisons(
  db: Db,
  statistics: StatisticsCache,
  { base, current }: { base: ComparisonRow; current: ComparisonRow },
): Promise<ComparisonDiff> {
  const [before, after] = [await loadSide(db, statistics, base), await loadSide(db, statistics, current)]
  const shared = matchTasks(before.tasks, after.tasks)
  const matches = matchSettings(before.settings, after.settings)
  const measured = matches.map((match) => measureMatch(match, shared))
  if (measured.every(({ tasks }) => tasks === 0))
    throw buildNoSharedTasksProblem('/path/baseId', 'The comparisons have no setting with a scored task in common.')
  const matchedBefore = matches.map(({ from }) => from)
  const matchedAfter = matches.map(({ to }) => to)
  return {
    base: base.id,
    comparison: current.id,
    tasks: {
      shared: shared.length,
      onlyInBase: before.tasks.length - shared.length,
      onlyInComparison: after.tasks.length - shared.length,
    },
    settings: decideVerdicts(measured).map(toWireSetting),
    unmatched: {
      base: listUnmatchedIds(before.settings, matchedBefore),
      comparison: listUnmatchedIds(after.settings, matchedAfter),
    },
  }
}

const listUnmatchedIds = (settings: readonly SideSetting[], matched: readonly SideSetting[]): string[] =>
  settings.filter((setting) => !matched.includes(setting)).map(({ id }) => id)

type DiffTask = ComparisonAxes['tasks'][number]
/** A setting of one of the two comparisons. */
type SideSetting = { id: string; harnessVersion: string; results: SettingResults }

/** Loads one of the two comparisons. */
async function loadSide(db: Db, statistics: StatisticsCache, row: ComparisonRow) {
  const { tasks } = await loadComparisonAxes(db, row)
  const results = await statistics.loadResults(db, row)
  const settings = (await listSettingRows(db, [row.key])).flatMap((setting, index): SideSetting[] => {
    const settingResults = results[index]
    if (!settingResults) return []
    return [{ id: setting.id, harnessVersion: setting.harness_version, results: settingResults }]
  })
  return { tasks, settings }
}

/** A task of both comparisons, with its position in each. */
type SharedTask = { task: DiffTask; from: number; to: number }

/** Matches tasks by digest: a task whose content has changed is another task. Duplicates are matched in their order. */
function matchTasks(before: readonly DiffTask[], after: readonly DiffTask[]): SharedTask[] {
  const positions = Map.groupBy(before.keys(), (index) => before[index]?.digest)
  return after.flatMap((task, to) => {
    const from = positions.get(task.digest)?.shift()
    return from === undefined ? [] : [{ task, from, to }]
  })
}

type SettingMatch = { from: SideSetting; to: SideSetting }

/**
 * Matches settings by id. If exactly one is left on each side, these two are matched: probably one model got a new
 * version.
 */
function matchSettings(before: readonly SideSetting[], after: readonly SideSetting[]): SettingMatch[] {
  const same = after.flatMap((to): SettingMatch[] => {
    const from = before.find(({ id }) => id === to.id)
    return from ? [{ from, to }] : []
  })
  const [from, ...otherBefore] = before.filter((setting) => !same.some((match) => match.from === setting))
  const [to, ...otherAfter] = after.filter((setting) => !same.some((match) => match.to === setting))
  const isOnlyOne = otherBefore.length === 0 && otherAfter.length === 0
  return from && to && isOnlyOne ? [...same, { from, to }] : same
}

function measureMatch({ from, to }: SettingMatch, shared: readonly SharedTask[]) {
  const baseTasks = shared.map((task) => task.from)
  const currentTasks = shared.map((task) => task.to)
  const baseResults = pickTasks(from.results, baseTasks)
  const currentResults = pickTasks(to.results, currentTasks)
  const changed = shared.flatMap(({ task }, index) => {
    const before = toTaskScore(baseResults, index)
    const after = toTaskScore(currentResults, index)
    if (!before || !after || before.passed === after.passed) return []
    return [{ task, change: after.passed ? ('fixed' as const) : ('broken' as const), before, after }]
  })
  return { from, to, changed, ...measurePair({ results: currentResults }, { results: baseResults }) }
}

/** Returns the results of these tasks, in this order. */
function pickTasks({ trials, passes, passed, micros }: SettingResults, tasks: readonly number[]): SettingResults {
  const pick = (values: Float64Array): Float64Array => Float64Array.from(tasks, (task) => values[task] ?? 0)
  return { trials: pick(trials), passes: pick(passes), passed: pick(passed), micros: pick(micros) }
}

type MatchWithVerdict = ReturnType<typeof decideVerdicts<ReturnType<typeof measureMatch>>>[number]

const toWireSetting = ({ from, to, tasks, wonByA, wonByB, changed, ...differences }: MatchWithVerdict) => ({
  base: from.id,
  setting: to.id,
  baseHarnessVersion: from.harnessVersion,
  harnessVersion: to.harnessVersion,
  tasks,
  fixed: wonByA,
  broken: wonByB,
  changed,
  ...toWireDifference(differences),
})
