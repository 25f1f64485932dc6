import type { Db } from '../../platform/db/db.ts'
import { invalidRequest, notFound, Problem } from '../../platform/problem.ts'
import { toUsd } from '../../platform/usd.ts'
import { requirePair } from '../../statistics/answer.ts'
import type { ComparisonStatistics } from '../../statistics/comparison-statistics.ts'
import { flipPair, type PairStatistics, type SettingResults, toOutcome } from '../../statistics/pairs.ts'
import { noSharedTasks } from '../schema.ts'
import { type ComparisonRow, listSettingRows } from '../sql.ts'
import { loadComparisonAxes } from '../trials/trials.ts'
import type { ComparisonPair, ComparisonPairWithTasks } from './schema.ts'
import type { StatisticsCache } from './statistics.ts'

/** Lists all pairs of settings, or with a baseline each other setting against it. */
export async function listPairs(
  db: Db,
  statistics: StatisticsCache,
  row: ComparisonRow,
  baseline: string | undefined,
): Promise<ComparisonPair[]> {
  const ids = (await listSettingRows(db, [row.key])).map(({ id }) => id)
  const base = baseline === undefined ? undefined : requireBaseline(ids, baseline)
  const loaded = await statistics.load(db, row)
  const pairs = base === undefined ? loaded.pairs : listAgainst(loaded, base)
  if (base !== undefined && ids.length > 1 && pairs.every(({ tasks }) => tasks === 0))
    throw buildNoSharedTasksProblem('/query/baseline', `${baseline} shares no scored task with another setting.`)
  return pairs.map((pair) => toWirePair(pair, ids))
}

function requireBaseline(ids: readonly string[], baseline: string): number {
  const index = ids.indexOf(baseline)
  if (index >= 0) return index
  const message = `Unknown setting ${baseline}`
  throw new Problem(invalidRequest, `/query/baseline: ${message}`, {
    errors: [{ pointer: '/query/baseline', code: 'unknown_setting', message }],
  })
}

const listAgainst = ({ pairs }: ComparisonStatistics, base: number): PairStatistics[] =>
  pairs.flatMap((pair) => {
    if (pair.b === base) return [pair]
    return pair.a === base ? [flipPair(pair)] : []
  })

/** Builds the problem that reports settings without a task in common. */
export const buildNoSharedTasksProblem = (pointer: string, message: string): Problem =>
  new Problem(noSharedTasks, message, { errors: [{ pointer, code: noSharedTasks.code, message }] })

/** Reads one pair with the outcome of each shared task. */
export async function readPair(
  db: Db,
  statistics: StatisticsCache,
  row: ComparisonRow,
  { a, b }: { a: string; b: string },
): Promise<ComparisonPairWithTasks> {
  const axes = await loadComparisonAxes(db, row)
  const ids = axes.settings.map(({ id }) => id)
  const [first, second] = [requireSetting(ids, a), requireSetting(ids, b)]
  if (first === second)
    throw buildNoSharedTasksProblem('/path/b', 'A setting cannot be compared with itself. Name two settings.')
  const pair = requirePair(await statistics.load(db, row), first, second)
  if (pair.tasks === 0) throw buildNoSharedTasksProblem('/path/b', `${a} and ${b} share no scored task.`)
  const results = await statistics.loadResults(db, row)
  const outcomes = axes.tasks.flatMap((task, index) => {
    const scoreA = toTaskScore(results[first], index)
    const scoreB = toTaskScore(results[second], index)
    if (!scoreA || !scoreB) return []
    return [{ task, outcome: toOutcome(scoreA.passed, scoreB.passed), a: scoreA, b: scoreB }]
  })
  return { ...toWirePair(pair, ids), outcomes }
}

function requireSetting(ids: readonly string[], id: string): number {
  const index = ids.indexOf(id)
  if (index < 0) throw new Problem(notFound, `Setting ${id} not found`)
  return index
}

/** Returns the result of a task. Undefined without a scored trial. */
export function toTaskScore(results: SettingResults | undefined, task: number) {
  const trials = results?.trials[task] ?? 0
  if (!results || trials === 0) return undefined
  const micros = results.micros[task] ?? Number.NaN
  return {
    passed: results.passed[task] === 1,
    trials,
    passes: results.passes[task] ?? 0,
    costUsd: Number.isNaN(micros) ? null : toUsd(micros),
  }
}

function toWirePair(pair: PairStatistics, ids: readonly string[]): ComparisonPair {
  const { tasks, wonByA, wonByB, both, neither } = pair
  return { a: ids[pair.a] ?? '', b: ids[pair.b] ?? '', wonByA, wonByB, both, neither, tasks, ...toWireDifference(pair) }
}

/** Converts differences to percentage points and USD. */
export function toWireDifference({
  difference,
  cost,
  verdict,
}: Pick<PairStatistics, 'difference' | 'cost' | 'verdict'>) {
  return {
    difference: difference
      ? {
          points: 100 * difference.mean,
          low: 100 * difference.low,
          high: 100 * difference.high,
          level: 0.95,
          method: 'paired-t-bonett-price',
        }
      : null,
    costDifferenceUsd: cost ? { mean: toUsd(cost.mean), low: toUsd(cost.low), high: toUsd(cost.high) } : null,
    verdict,
  }
}
