import type { Score } from './paired.ts'

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
