import type { Score } from './paired.ts'

/** Consistency of a setting over several trials of the same task. */
export type Reliability = {
  /** Number of trials that every task has. */
  trials: number
  always: number
  sometimes: number
  never: number
  /** pass^k in percent for k ≥ 2: probability that k trials of a task all pass. */
  passPower: { k: number; percent: number }[]
}

/** Computes the reliability. Null if a task has only one trial. */
export function computeReliability(scores: readonly Score[]): Reliability | null {
  const trials = Math.min(...scores.map((score) => score.trials))
  if (scores.length === 0 || trials < 2) return null
  const always = scores.filter((score) => score.passes === score.trials).length
  const never = scores.filter(({ passes }) => passes === 0).length
  const powers = Array.from({ length: trials - 1 }, (_, index) => index + 2)
  return {
    trials,
    always,
    never,
    sometimes: scores.length - always - never,
    passPower: powers.map((k) => ({
      k,
      percent: (100 * sum(scores.map((each) => chanceAllPass(each, k)))) / scores.length,
    })),
  }
}

/** Computes C(passes, k) / C(trials, k): the share of k-subsets of trials in which all passed. */
function chanceAllPass({ passes, trials }: Score, k: number): number {
  let share = 1
  for (let taken = 0; taken < k; taken++) share *= Math.max(0, passes - taken) / (trials - taken)
  return share
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)
