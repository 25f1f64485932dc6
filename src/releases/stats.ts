import type { OutcomeUsage } from '../comparisons/outcome.ts'
import { METHODS } from '../comparisons/statistics/answer.ts'
import { estimateFrontierProbabilities } from '../statistics/frontier.ts'
import { computeWilsonInterval } from '../statistics/intervals.ts'
import { computeReliability, type Reliability, type Scores } from '../statistics/paired.ts'
import { computeRanks, type Rank } from '../statistics/pairs.ts'
import { isComplete, listTasks, type SettingResult } from './aggregate.ts'
import { type ResultCell, sameOrMixed } from './cohort.ts'

type SettingStats = {
  /** In percent, like all shares in this type. */
  passAt1: number
  ci95: { low: number; high: number; level: number; method: string; tasks: number; trials: number } | null
  rank: Rank
  frontierProbability: number | null
  usagePerTask: OutcomeUsage | null
  cacheHitRate: number | null
  medianSeconds: number | null
  reliability: Reliability | null
  coverage: number
  errored: number
  costSource: string | null
  methods: { rank: string; frontierProbability: string }
}

const INTERVAL_FACTS = { level: 0.95, method: 'wilson-task-clustered' }

/** Computes the statistics of the settings, by id. The seed makes the bootstrap reproducible. */
export function computeSettingStats(chosen: readonly SettingResult[], seed: string): Map<string, SettingStats> {
  const tasks = listTasks(chosen)
  const rankRanges = computeRanks(chosen.map(toScores))
  const aligned = chosen
    .filter((result) => result.reason === undefined && isComplete(result, tasks))
    .map(toAlignedScores)
  const frontierProbabilities = estimateFrontierProbabilities(aligned, seed)
  return new Map(
    chosen.map((result, index): [string, SettingStats] => [
      result.id,
      {
        ...computeAccuracy(result.cells),
        rank: rankRanges[index] ?? { best: 1, worst: chosen.length },
        frontierProbability: frontierProbabilities.get(result.id) ?? null,
        ...averageUsage(result.cells),
        medianSeconds: computeMedianSeconds(result.cells),
        reliability: computeReliability(result.cells),
        coverage: tasks.length === 0 ? 0 : (100 * result.cells.length) / tasks.length,
        errored: result.errored,
        costSource: sameOrMixed(result.cells.map(({ costSource }) => costSource)),
        methods: METHODS,
      },
    ]),
  )
}

export const toScores = ({ cells }: SettingResult): Scores => new Map(cells.map((cell) => [cell.task, cell]))

/** Returns arrays with the scores and costs of a complete setting, which has the same tasks as all others. */
const toAlignedScores = ({ id, cells }: SettingResult) => ({
  id,
  passed: cells.map(({ passed }) => passed),
  micros: cells.map(({ costMicros }) => costMicros ?? 0),
})

function computeAccuracy(cells: readonly ResultCell[]): Pick<SettingStats, 'passAt1' | 'ci95'> {
  if (cells.length === 0) return { passAt1: 0, ci95: null }
  const shares = cells.map(({ passes, trials }) => passes / trials)
  const mean = sum(shares) / cells.length
  // The variance of a single task is NaN; it has no interval.
  const variance = sum(shares.map((share) => (share - mean) ** 2)) / (cells.length - 1)
  const size = { tasks: cells.length, trials: sum(cells.map(({ trials }) => trials)) }
  const interval = computeWilsonInterval({ ...size, mean, variance })
  return {
    passAt1: 100 * mean,
    ci95: interval ? { low: 100 * interval.low, high: 100 * interval.high, ...INTERVAL_FACTS, ...size } : null,
  }
}

/** Averages the usage of the canonical trials. Null if the usage of one is unknown. */
function averageUsage(cells: readonly ResultCell[]): Pick<SettingStats, 'usagePerTask' | 'cacheHitRate'> {
  const usages = cells.flatMap(({ usage }) => (usage ? [usage] : []))
  if (usages.length === 0 || usages.length < cells.length) return { usagePerTask: null, cacheHitRate: null }
  const total = (name: keyof OutcomeUsage): number => sum(usages.map((usage) => usage[name]))
  const mean = (name: keyof OutcomeUsage): number => total(name) / usages.length
  const inputTokens = total('input') + total('cacheRead') + total('cacheWrite')
  return {
    usagePerTask: {
      input: mean('input'),
      cacheRead: mean('cacheRead'),
      cacheWrite: mean('cacheWrite'),
      output: mean('output'),
      reasoning: mean('reasoning'),
    },
    cacheHitRate: inputTokens === 0 ? null : (100 * total('cacheRead')) / inputTokens,
  }
}

/** Returns the median duration of the agent in the canonical trials. Null if the duration of one is unknown. */
function computeMedianSeconds(cells: readonly ResultCell[]): number | null {
  const seconds = cells
    .flatMap(({ agentSeconds }) => (agentSeconds === null ? [] : [agentSeconds]))
    .sort((a, b) => a - b)
  const [low, high] = [seconds[Math.floor((seconds.length - 1) / 2)], seconds[Math.floor(seconds.length / 2)]]
  return low === undefined || high === undefined || seconds.length < cells.length ? null : (low + high) / 2
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)
