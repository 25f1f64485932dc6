import { estimateMean, type MeanInterval } from './intervals.ts'
import {
  type AlignedScores,
  alignScores,
  type MeasuredDifference,
  measureDifference,
  type Scores,
  testDifference,
} from './paired.ts'

/** Results of one setting with one element per task. Tasks have the same index in all settings of a comparison. */
export type SettingResults = {
  /** Number of scored trials. 0 for a task without a result. */
  trials: Float64Array
  passes: Float64Array
  /** 1 if the first scored trial passed. */
  passed: Float64Array
  /** Cost of the first scored trial. NaN if unknown or if there is none. */
  micros: Float64Array
}

/** The verdict about the first setting of a pair. */
export type Verdict = 'better' | 'worse' | 'cannot_tell'

/** Shared tasks by their first scored trials. */
type PairCounts = { tasks: number; wonByA: number; wonByB: number; both: number; neither: number }

/** Two settings on the tasks that both have. `a` and `b` are positions in the list of settings. */
export type PairStatistics = PairCounts & {
  a: number
  b: number
  /** Accuracy of `a` minus accuracy of `b`, as a fraction of 1. Undefined below five shared tasks. */
  difference: MeasuredDifference | undefined
  /** Cost of `a` minus cost of `b` in micro-dollars per task. Undefined below five shared tasks or if a cost is unknown. */
  cost: MeanInterval | undefined
  /** True if every shared task has exactly one trial with each setting. */
  isSingle: boolean
  verdict: Verdict
}

type UndecidedPair = Omit<PairStatistics, 'verdict'>

/** Compares all pairs of settings, each once, with `a` before `b`. Verdicts are corrected for the number of pairs (Holm). */
export function comparePairs(all: readonly SettingResults[]): PairStatistics[] {
  const alignedScores = all.map(toAlignedScores)
  return decideVerdicts(
    all.flatMap((first, a) =>
      all.slice(a + 1).map((second, offset): UndecidedPair => {
        const b = a + 1 + offset
        return {
          a,
          b,
          ...measurePair({ results: first, scores: alignedScores[a] }, { results: second, scores: alignedScores[b] }),
        }
      }),
    ),
  )
}

/** Adds the verdicts of one family of pairs. */
export function decideVerdicts<Pair extends { difference: MeasuredDifference | undefined }>(
  pairs: readonly Pair[],
): (Pair & { verdict: Verdict })[] {
  const tested = pairs.flatMap(({ difference }) => (difference ? [difference] : []))
  const significant = selectSignificant(tested.map(({ probability }) => probability))
  const significantDifferences = new Set(tested.filter((_, index) => significant[index]))
  return pairs.map((pair) => ({ ...pair, verdict: toVerdict(pair.difference, significantDifferences) }))
}

function toVerdict(difference: MeasuredDifference | undefined, significant: ReadonlySet<MeasuredDifference>): Verdict {
  if (!difference || !significant.has(difference)) return 'cannot_tell'
  return difference.centre > 0 ? 'better' : 'worse'
}

export const toAlignedScores = ({ passes, trials }: SettingResults): AlignedScores => ({
  shares: passes.map((count, task) => count / (trials[task] ?? 0)),
  trials,
})

/** One setting of a pair. `scores` are those of `results`, if the caller has computed them already. */
type PairSide = { results: SettingResults; scores?: AlignedScores | undefined }

/** Measures two settings whose tasks have the same index. */
export function measurePair(a: PairSide, b: PairSide) {
  const difference = measureDifference(a.scores ?? toAlignedScores(a.results), b.scores ?? toAlignedScores(b.results))
  return { ...countPair(a.results, b.results), difference, cost: measureCost(a.results, b.results) }
}

function countPair(a: SettingResults, b: SettingResults): PairCounts & { isSingle: boolean } {
  let [tasks, passedByA, passedByB, both, trials] = [0, 0, 0, 0, 0]
  for (let task = 0; task < a.trials.length; task++) {
    const trialsOfA = a.trials[task] ?? 0
    const trialsOfB = b.trials[task] ?? 0
    if (trialsOfA === 0 || trialsOfB === 0) continue
    const passA = a.passed[task] ?? 0
    const passB = b.passed[task] ?? 0
    tasks += 1
    trials += trialsOfA + trialsOfB
    passedByA += passA
    passedByB += passB
    both += passA * passB
  }
  const neither = tasks - passedByA - passedByB + both
  const isSingle = trials === 2 * tasks
  return { tasks, wonByA: passedByA - both, wonByB: passedByB - both, both, neither, isSingle }
}

type PairOutcome = 'wonByA' | 'wonByB' | 'both' | 'neither'

export function toOutcome(isPassedByA: boolean, isPassedByB: boolean): PairOutcome {
  if (isPassedByA) return isPassedByB ? 'both' : 'wonByA'
  return isPassedByB ? 'wonByB' : 'neither'
}

/** Estimates the difference in cost on shared tasks. Undefined if a cost is unknown. */
function measureCost(a: SettingResults, b: SettingResults): MeanInterval | undefined {
  const gaps = new Float64Array(a.trials.length)
  let tasks = 0
  for (let task = 0; task < a.trials.length; task++) {
    if (a.trials[task] === 0 || b.trials[task] === 0) continue
    const gap = (a.micros[task] ?? 0) - (b.micros[task] ?? 0)
    if (Number.isNaN(gap)) return undefined
    gaps[tasks] = gap
    tasks += 1
  }
  return estimateMean(gaps.subarray(0, tasks))
}

/** Returns the same pair seen from the other side. */
export function flipPair(pair: PairStatistics): PairStatistics {
  const { a, b, wonByA, wonByB, difference, cost, verdict } = pair
  return {
    ...pair,
    a: b,
    b: a,
    wonByA: wonByB,
    wonByB: wonByA,
    difference: difference && flipDifference(difference),
    cost: cost && { mean: -cost.mean, low: -cost.high, high: -cost.low },
    verdict: FLIPPED[verdict],
  }
}

const FLIPPED = { better: 'worse', worse: 'better', cannot_tell: 'cannot_tell' } as const

const flipDifference = (difference: MeasuredDifference): MeasuredDifference => ({
  ...difference,
  mean: -difference.mean,
  low: -difference.high,
  high: -difference.low,
  wins: difference.losses,
  losses: difference.wins,
  centre: -difference.centre,
})

const SIGNIFICANCE_LEVEL = 0.05

/**
 * Returns for each p-value whether it is significant. Holm's method limits the probability of one or more false
 * positives among all of them to 5 %.
 */
export function selectSignificant(probabilities: readonly number[]): boolean[] {
  const order = probabilities
    .map((_, index) => index)
    .sort((a, b) => valueAt(probabilities, a) - valueAt(probabilities, b))
  const firstInsignificant = order.findIndex(
    (index, step) => valueAt(probabilities, index) > SIGNIFICANCE_LEVEL / (order.length - step),
  )
  const significant = new Set(firstInsignificant < 0 ? order : order.slice(0, firstInsignificant))
  return probabilities.map((_, index) => significant.has(index))
}

const valueAt = (values: readonly number[], index: number): number => values[index] ?? 1

export type Rank = { best: number; worst: number }

/**
 * Computes the range of ranks of each setting. All pairs are tested; Holm's method keeps the probability of even one false
 * claim at 5 %.
 */
export const computeRanks = (all: readonly Scores[]): Rank[] => countRanks(all.length, listClaims(all))

/** A setting that was shown to be better than another. Both are positions in the list of settings. */
type RankClaim = { winner: number; loser: number }

/** Computes the range of ranks from the pairs that could be told apart. */
export function countRanks(settings: number, claims: readonly RankClaim[]): Rank[] {
  // Per setting: how many others are better, and how many are worse.
  const betterCounts = new Uint32Array(settings)
  const worseCounts = new Uint32Array(settings)
  for (const { winner, loser } of claims) {
    betterCounts[loser] = (betterCounts[loser] ?? 0) + 1
    worseCounts[winner] = (worseCounts[winner] ?? 0) + 1
  }
  return Array.from(betterCounts, (count, index) => ({ best: 1 + count, worst: settings - (worseCounts[index] ?? 0) }))
}

function listClaims(all: readonly Scores[]): RankClaim[] {
  const alignedScores = alignScores(all)
  const tested = alignedScores.flatMap((a, first) =>
    alignedScores.slice(first + 1).flatMap((b, offset) => {
      const difference = testDifference(a, b)
      if (!difference) return []
      const second = first + 1 + offset
      const [winner, loser] = difference.isBetter ? [first, second] : [second, first]
      return [{ winner, loser, probability: difference.probability }]
    }),
  )
  const significant = selectSignificant(tested.map(({ probability }) => probability))
  return tested.filter((_, index) => significant[index])
}
