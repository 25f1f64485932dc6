import { TASKS_MIN } from './intervals.ts'
import { oneSidedPValue, quantile, twoSidedPValue } from './student.ts'

/** Trials of one task with one setting. */
export type Score = { trials: number; passes: number }
export type Scores = ReadonlyMap<string, Score>

/** Difference in accuracy between two settings on the tasks that both have, as fractions of 1. */
type Difference = {
  tasks: number
  mean: number
  low: number
  high: number
  wins: number
  losses: number
  ties: number
}

const SIGNIFICANCE_LEVEL = 0.05

type PairedTest = { mean: number; t: number; error: number; degrees: number }

/**
 * Runs a paired t-test over tasks, which removes the difficulty that both settings share. Two artificial tasks, one in favour of
 * each side and worth one trial, prevent a zero variance where few tasks differ (Bonett and Price).
 */
function testPair({ tasks, sum, squares, attempts }: GapSums): PairedTest | undefined {
  if (tasks < TASKS_MIN) return undefined
  const [count, degrees] = [tasks + 2, tasks + 1]
  const mean = sum / count
  const error = Math.sqrt((squares + 2 / attempts ** 2 - count * mean ** 2) / degrees / count)
  return { mean, t: mean / error, error, degrees }
}

/** Pass shares and trials of a setting, with the same task at the same index in all settings. A missing share is NaN. */
export type AlignedScores = { shares: Float64Array; trials: Float64Array }

/** Puts the scores of all settings into arrays with the same task at the same index. */
export function alignScores(all: readonly Scores[]): AlignedScores[] {
  const indexes = new Map<string, number>()
  for (const scores of all) for (const task of scores.keys()) if (!indexes.has(task)) indexes.set(task, indexes.size)
  return all.map((scores) => {
    const aligned = { shares: new Float64Array(indexes.size).fill(Number.NaN), trials: new Float64Array(indexes.size) }
    for (const [task, { passes, trials }] of scores) {
      const index = indexes.get(task) ?? 0
      aligned.shares[index] = passes / trials
      aligned.trials[index] = trials
    }
    return aligned
  })
}

/** Sums of the differences in pass share over the tasks that both settings have; `attempts` is the minimum of trials. */
type GapSums = { tasks: number; sum: number; squares: number; wins: number; losses: number; attempts: number }

function sumGaps(a: AlignedScores, b: AlignedScores): GapSums {
  let [tasks, sum, squares, wins, losses, attempts] = [0, 0, 0, 0, 0, Number.POSITIVE_INFINITY]
  for (let index = 0; index < a.shares.length; index++) {
    const gap = (a.shares[index] ?? 0) - (b.shares[index] ?? 0)
    if (Number.isNaN(gap)) continue
    tasks += 1
    sum += gap
    squares += gap * gap
    wins += Number(gap > 0)
    losses += Number(gap < 0)
    attempts = Math.min(attempts, a.trials[index] ?? 0, b.trials[index] ?? 0)
  }
  return { tasks, sum, squares, wins, losses, attempts }
}

/** Estimates the difference with its 95 % interval. Undefined below five tasks. */
export function estimateDifference(a: AlignedScores, b: AlignedScores): Difference | undefined {
  const sums = sumGaps(a, b)
  const tested = testPair(sums)
  return tested && toDifference(sums, tested)
}

function toDifference(sums: GapSums, tested: PairedTest): Difference {
  const half = quantile(SIGNIFICANCE_LEVEL, tested.degrees) * tested.error
  const { tasks, wins, losses } = sums
  return {
    tasks,
    mean: sums.sum / tasks,
    low: Math.max(-1, tested.mean - half),
    high: Math.min(1, tested.mean + half),
    wins,
    losses,
    ties: tasks - wins - losses,
  }
}

/** Difference with its test: estimate, standard error and degrees of freedom of the adjusted mean, two-sided p-value. */
export type MeasuredDifference = Difference & { centre: number; error: number; degrees: number; probability: number }

/** Estimates and tests the difference in one pass. Undefined below five tasks. */
export function measureDifference(a: AlignedScores, b: AlignedScores): MeasuredDifference | undefined {
  const sums = sumGaps(a, b)
  const tested = testPair(sums)
  if (!tested) return undefined
  const { mean: centre, error, degrees, t } = tested
  return { ...toDifference(sums, tested), centre, error, degrees, probability: twoSidedPValue(t, degrees) }
}

/** Returns the two-sided p-value of the difference and its direction. Undefined below five tasks. */
export function testDifference(
  a: AlignedScores,
  b: AlignedScores,
): { probability: number; isBetter: boolean } | undefined {
  const tested = testPair(sumGaps(a, b))
  return tested && { probability: twoSidedPValue(tested.t, tested.degrees), isBetter: tested.mean > 0 }
}

/** True if `a` is significantly less accurate than `b`: one-sided, at 5 %. */
export function isShownWorse(a: AlignedScores, b: AlignedScores): boolean {
  const tested = testPair(sumGaps(a, b))
  return tested !== undefined && oneSidedPValue(-tested.t, tested.degrees) < SIGNIFICANCE_LEVEL
}

/** Consistency of a setting over several trials of the same task. */
export type Reliability = {
  /** Smallest number of trials of any task. */
  trials: number
  /** Numbers of tasks that passed in all, in some, and in none of their trials. */
  always: number
  sometimes: number
  never: number
  /** pass^k in percent for k ≥ 2: probability that k trials of a task all pass. */
  passPower: { k: number; percent: number }[]
}

/** Returns null if there are no tasks or if a task has only one trial. */
export function computeReliability(scores: readonly Score[]): Reliability | null {
  const trials = Math.min(...scores.map((score) => score.trials))
  if (scores.length === 0 || trials < 2) return null
  const always = scores.filter((score) => score.passes === score.trials).length
  const never = scores.filter(({ passes }) => passes === 0).length
  const ks = Array.from({ length: trials - 1 }, (_, index) => index + 2)
  return {
    trials,
    always,
    never,
    sometimes: scores.length - always - never,
    passPower: ks.map((k) => ({
      k,
      percent: (100 * sum(scores.map((each) => allPassProbability(each, k)))) / scores.length,
    })),
  }
}

/** Computes C(passes, k) / C(trials, k): the share of k-subsets of trials in which all passed. */
function allPassProbability({ passes, trials }: Score, k: number): number {
  let share = 1
  for (let taken = 0; taken < k; taken++) share *= Math.max(0, passes - taken) / (trials - taken)
  return share
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)
