import { type Answer, buildAnswer } from '../../../src/statistics/answer.ts'
import { type ComparisonStatistics, computeStatistics } from '../../../src/statistics/comparison-statistics.ts'
import { createGenerator } from '../../../src/statistics/frontier.ts'
import { computeWilsonInterval } from '../../../src/statistics/intervals.ts'
import type { PairStatistics, SettingResults } from '../../../src/statistics/pairs.ts'
import { beta, CONCENTRATION, type Random, toRandom, toSeed } from './simulation.ts'

// Simulated comparisons with known accuracies, through the statistics and the recommendation of a whole comparison.

/** Counts over many simulated comparisons. */
export type WorldCounts = {
  worlds: number
  /** Worlds in which some setting was called better than one that is at least as accurate. */
  falseBetter: number
  /** Pairs of unequal settings, and those called better or worse correctly. */
  unequalPairs: number
  toldApart: number
  recommended: number
  conclusive: number
  /** Recommendations that are truly worse than another setting by more than the visible difference. */
  badRecommendations: number
  accuracyIntervals: number
  accuracyHeld: number
  differenceIntervals: number
  differenceHeld: number
  costIntervals: number
  costHeld: number
}

/** Simulates comparisons of 2 to 12 settings, 10 to 200 tasks and 1 to 5 attempts. Deterministic. */
export function simulateWorlds(worlds: number, seed: string): WorldCounts {
  const counts: WorldCounts = {
    worlds,
    falseBetter: 0,
    unequalPairs: 0,
    toldApart: 0,
    recommended: 0,
    conclusive: 0,
    badRecommendations: 0,
    accuracyIntervals: 0,
    accuracyHeld: 0,
    differenceIntervals: 0,
    differenceHeld: 0,
    costIntervals: 0,
    costHeld: 0,
  }
  for (let number = 0; number < worlds; number++) countWorld(counts, toSeed(seed, number))
  return counts
}

type SimulatedWorld = { tasks: number; attempts: number; means: number[]; costs: number[]; results: SettingResults[] }

function countWorld(counts: WorldCounts, seed: string): void {
  const world = drawWorld(toRandom(createGenerator(seed)))
  const statistics = computeStatistics(world.results)
  countPairs(counts, world, statistics)
  countIntervals(counts, world, statistics)
  const answer = buildAnswer({
    isCollecting: false,
    finished: 0,
    total: 0,
    plan: world,
    settings: world.means.map((_, index) => ({ id: String(index), name: `setting ${index}`, isReference: false })),
    statistics,
  })
  countAnswer(counts, world, answer)
}

const between = (uniform: Random, low: number, high: number): number => low + Math.floor(uniform() * (high - low + 1))

/**
 * Draws a world. Half of the settings share the accuracy of the first, the others differ by up to 30 points either way.
 * Tasks are mostly easy or hard for all; each setting also has its own strengths.
 */
function drawWorld(uniform: Random): SimulatedWorld {
  const [settings, tasks, attempts] = [between(uniform, 2, 12), between(uniform, 10, 200), between(uniform, 1, 5)]
  const first = 0.2 + 0.6 * uniform()
  const means = Array.from({ length: settings }, (_, index) =>
    index === 0 || uniform() < 0.5 ? first : Math.min(0.95, Math.max(0.05, first + 0.6 * (uniform() - 0.5))),
  )
  const costs = means.map(() => 10_000 * 10 ** (2 * uniform()))
  const shared = uniform()
  const ranks = Array.from({ length: tasks }, () => uniform())
  const results = means.map((mean, index) =>
    drawResults(uniform, { mean, micros: costs[index] ?? 0, attempts, shared, ranks }),
  )
  return { tasks, attempts, means, costs, results }
}

type SettingDraw = { mean: number; micros: number; attempts: number; shared: number; ranks: readonly number[] }

/** Draws the trials of one setting. The difficulty of a task is shared among settings or drawn for each. */
function drawResults(uniform: Random, { mean, micros, attempts, shared, ranks }: SettingDraw): SettingResults {
  const { quantiles } = findTable(mean)
  const outcomes = ranks.map((rank) => {
    const difficulty = uniform() < shared ? rank : uniform()
    const chance = quantiles[Math.floor(difficulty * TABLE)] ?? 0
    return Array.from({ length: attempts }, () => Number(uniform() < chance))
  })
  return {
    trials: new Float64Array(ranks.length).fill(attempts),
    passes: Float64Array.from(outcomes, (trials) => trials.reduce((sum, passed) => sum + passed, 0)),
    passed: Float64Array.from(outcomes, ([first = 0]) => first),
    micros: Float64Array.from(ranks, () => micros * logNormal(uniform)),
  }
}

const SPREAD = 0.5

/** Log-normal with mean 1. */
const logNormal = (uniform: Random): number => {
  const normal = Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
  return Math.exp(SPREAD * normal - SPREAD ** 2 / 2)
}

const TABLE = 4000
/** Pass probabilities of the tasks of a setting, sorted, with their exact mean. */
type ChanceTable = { quantiles: Float64Array; mean: number }
const tables = new Map<number, ChanceTable>()

/** Returns a sorted sample of the Beta distribution with about this mean. The mean of the sample is the true accuracy. */
function findTable(mean: number): ChanceTable {
  const known = tables.get(mean)
  if (known) return known
  const uniform = toRandom(createGenerator(toSeed('table', mean)))
  const chance = () => beta(uniform, mean * CONCENTRATION, (1 - mean) * CONCENTRATION)
  const quantiles = Float64Array.from({ length: TABLE }, chance).sort()
  const table = { quantiles, mean: quantiles.reduce((sum, each) => sum + each, 0) / TABLE }
  tables.set(mean, table)
  return table
}

const trueMean = (mean: number | undefined): number => findTable(mean ?? 0).mean

const contains = (interval: { low: number; high: number } | undefined, truth: number): boolean =>
  interval !== undefined && interval.low <= truth && truth <= interval.high

function countPairs(counts: WorldCounts, { means }: SimulatedWorld, { pairs }: ComparisonStatistics): void {
  const judged = pairs.map((pair) => ({ ...pair, gap: trueMean(means[pair.a]) - trueMean(means[pair.b]) }))
  const isClaim = ({ verdict }: PairStatistics): boolean => verdict !== 'cannot_tell'
  const isTrue = ({ verdict, gap }: PairStatistics & { gap: number }): boolean =>
    (verdict === 'better' && gap > 0) || (verdict === 'worse' && gap < 0)
  counts.falseBetter += judged.some((pair) => isClaim(pair) && !isTrue(pair)) ? 1 : 0
  counts.unequalPairs += judged.filter(({ gap }) => gap !== 0).length
  counts.toldApart += judged.filter(isTrue).length
  counts.differenceIntervals += judged.length
  counts.differenceHeld += judged.filter(({ difference, gap }) => contains(difference, gap)).length
}

function countIntervals(counts: WorldCounts, world: SimulatedWorld, { settings }: ComparisonStatistics): void {
  for (const [index, { mean, tasks, trials, cost }] of settings.entries()) {
    const { passes, trials: each } = world.results[index] ?? { passes: [], trials: [] }
    const shares = Array.from(passes, (count, task) => count / (each[task] ?? 1))
    const variance = shares.reduce((sum, share) => sum + (share - mean) ** 2, 0) / (tasks - 1)
    const interval = computeWilsonInterval({ tasks, trials, mean, variance })
    counts.accuracyIntervals += 1
    counts.accuracyHeld += contains(interval, trueMean(world.means[index])) ? 1 : 0
    counts.costIntervals += 1
    counts.costHeld += contains(cost, world.costs[index] ?? 0) ? 1 : 0
  }
}

function countAnswer(counts: WorldCounts, { means }: SimulatedWorld, answer: Answer): void {
  if (answer.recommended === null) return
  counts.recommended += 1
  counts.conclusive += answer.state === 'conclusive' ? 1 : 0
  const best = Math.max(...means.map(trueMean))
  const loss = best - trueMean(means[Number(answer.recommended)])
  if (100 * loss > (answer.smallestVisibleDifference ?? 0)) counts.badRecommendations += 1
}
