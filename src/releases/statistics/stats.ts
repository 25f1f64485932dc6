import type { OutcomeUsage } from '../../comparisons/outcome.ts'
import { interval } from '../../comparisons/statistics.ts'
import { isComplete, type Result, tasksOf } from '../aggregate.ts'
import { type Cell, sameOrMixed } from '../cohort.ts'
import { DRAWS, frontierProbabilities } from './frontier-probability.ts'
import type { Scores } from './paired.ts'
import { type Rank, ranks } from './ranks.ts'
import { type Reliability, reliability } from './reliability.ts'

export type Stats = {
  /** In percent, as all shares here. */
  passAt1: number
  ci95: { low: number; high: number; level: number; method: string; tasks: number; trials: number } | null
  rank: Rank
  frontierProbability: number | null
  usagePerTask: OutcomeUsage | null
  cacheHitRate: number | null
  reliability: Reliability | null
  coverage: number
  errored: number
  costSource: string | null
  methods: { rank: string; frontierProbability: string }
}

const METHODS = { rank: 'holm-paired-t', frontierProbability: `task-bootstrap-${DRAWS}-sfc32` }
const INTERVAL = { level: 0.95, method: 'wilson-task-clustered' }

/** What the results of these settings are worth, by id. The seed makes the drawn ones repeatable. */
export function statsOf(chosen: readonly Result[], seed: string): Map<string, Stats> {
  const tasks = tasksOf(chosen)
  const places = ranks(chosen.map(scoresOf))
  const tracks = chosen.filter((result) => result.reason === undefined && isComplete(result, tasks)).map(trackOf)
  const onFrontier = frontierProbabilities(tracks, seed)
  return new Map(
    chosen.map((result, place): [string, Stats] => [
      result.id,
      {
        ...accuracy(result.cells),
        rank: places[place] ?? { best: 1, worst: chosen.length },
        frontierProbability: onFrontier.get(result.id) ?? null,
        ...usageOf(result.cells),
        reliability: reliability(result.cells),
        coverage: tasks.length === 0 ? 0 : (100 * result.cells.length) / tasks.length,
        errored: result.errored,
        costSource: sameOrMixed(result.cells.map(({ costSource }) => costSource)),
        methods: METHODS,
      },
    ]),
  )
}

export const scoresOf = ({ cells }: Result): Scores => new Map(cells.map((cell) => [cell.task, cell]))

const trackOf = ({ id, cells }: Result) => ({
  id,
  passed: cells.map(({ passed }) => passed),
  micros: cells.map(({ costMicros }) => costMicros ?? 0),
})

function accuracy(cells: readonly Cell[]): Pick<Stats, 'passAt1' | 'ci95'> {
  if (cells.length === 0) return { passAt1: 0, ci95: null }
  const shares = cells.map(({ passes, trials }) => passes / trials)
  const mean = sum(shares) / cells.length
  // Not a number for a single task, which has no interval.
  const variance = sum(shares.map((share) => (share - mean) ** 2)) / (cells.length - 1)
  const size = { tasks: cells.length, trials: sum(cells.map(({ trials }) => trials)) }
  const found = interval({ ...size, mean, variance })
  return {
    passAt1: 100 * mean,
    ci95: found ? { low: 100 * found.low, high: 100 * found.high, ...INTERVAL, ...size } : null,
  }
}

/** Of the trials that count. Null when one of them does not tell. */
function usageOf(cells: readonly Cell[]): Pick<Stats, 'usagePerTask' | 'cacheHitRate'> {
  const known = cells.flatMap(({ usage }) => (usage ? [usage] : []))
  if (known.length === 0 || known.length < cells.length) return { usagePerTask: null, cacheHitRate: null }
  const all = (name: keyof OutcomeUsage): number => sum(known.map((usage) => usage[name]))
  const mean = (name: keyof OutcomeUsage): number => all(name) / known.length
  const read = all('input') + all('cacheRead') + all('cacheWrite')
  return {
    usagePerTask: {
      ...{ input: mean('input'), cacheRead: mean('cacheRead'), cacheWrite: mean('cacheWrite') },
      ...{ output: mean('output'), reasoning: mean('reasoning') },
    },
    cacheHitRate: read === 0 ? null : (100 * all('cacheRead')) / read,
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)
