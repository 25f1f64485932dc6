import { createHash } from 'node:crypto'
import { estimateFrontierProbabilities } from './frontier.ts'
import { estimateCost, type MeanInterval } from './intervals.ts'
import { comparePairs, countRanks, type PairStatistics, type Rank, type SettingResults } from './pairs.ts'

/** Statistics of one setting of a comparison. */
export type SettingStatistics = {
  tasks: number
  trials: number
  /** Tasks whose first scored trial passed. */
  passed: number
  /** Mean over tasks of the share of trials that passed. NaN without tasks. */
  mean: number
  /** Mean cost per task in micro-dollars. Undefined if a cost is unknown or there are no tasks. */
  meanMicros: number | undefined
  /** Mean cost per task with its interval. Undefined like `meanMicros`, and if there are fewer than five tasks. */
  cost: MeanInterval | undefined
  rank: Rank | undefined
  /** Undefined unless the setting has a result and a known cost for every scored task. */
  frontierProbability: number | undefined
}

export type ComparisonStatistics = { settings: SettingStatistics[]; pairs: PairStatistics[] }

/** Computes the statistics of a comparison. Deterministic: the bootstrap is seeded with a hash of the results. */
export function computeStatistics(all: readonly SettingResults[]): ComparisonStatistics {
  const pairs = comparePairs(all)
  const ranks = countRanks(
    all.length,
    pairs.flatMap(({ a, b, verdict }) => {
      if (verdict === 'cannot_tell') return []
      return [verdict === 'better' ? { winner: a, loser: b } : { winner: b, loser: a }]
    }),
  )
  const frontierProbabilities = computeFrontierProbabilities(all)
  const settings = all.map((results, index) => {
    const sums = sumResults(results)
    const hasTasks = sums.tasks > 0
    return {
      ...sums,
      rank: hasTasks ? ranks[index] : undefined,
      frontierProbability: frontierProbabilities.get(String(index)),
    }
  })
  return { settings, pairs }
}

function sumResults({ trials, passes, passed, micros }: SettingResults) {
  const scored = Array.from(trials.keys()).filter((task) => (trials[task] ?? 0) > 0)
  const sum = (value: (task: number) => number): number => scored.reduce((all, task) => all + value(task), 0)
  const costs = scored.map((task) => micros[task] ?? Number.NaN)
  const isPriced = scored.length > 0 && !costs.some(Number.isNaN)
  return {
    tasks: scored.length,
    trials: sum((task) => trials[task] ?? 0),
    passed: sum((task) => passed[task] ?? 0),
    mean: sum((task) => (passes[task] ?? 0) / (trials[task] ?? 1)) / scored.length,
    meanMicros: isPriced ? sum((task) => micros[task] ?? 0) / scored.length : undefined,
    cost: isPriced ? estimateCost(costs) : undefined,
  }
}

/** Estimates the frontier probabilities of the settings that have every scored task, by position. */
function computeFrontierProbabilities(all: readonly SettingResults[]): Map<string, number> {
  const tasks = Array.from(all[0]?.trials.keys() ?? []).filter((task) => all.some(({ trials }) => trials[task]))
  const completeSettings = all.flatMap(({ trials, passed, micros }, index) => {
    const isComplete = tasks.every((task) => trials[task] && !Number.isNaN(micros[task]))
    if (!isComplete) return []
    return [
      {
        id: String(index),
        passed: tasks.map((task) => passed[task] === 1),
        micros: tasks.map((task) => micros[task] ?? 0),
      },
    ]
  })
  return estimateFrontierProbabilities(completeSettings, hashResults(all))
}

function hashResults(all: readonly SettingResults[]): string {
  const hash = createHash('sha256')
  for (const { trials, passes, passed, micros } of all)
    hash.update([trials, passes, passed, micros].map((values) => values.join()).join('\n'))
  return hash.digest('hex')
}
