import type { Score } from './paired.ts'

/** How steady a setting is over several trials of the same task. */
export type Reliability = {
  /** As many as every task has. */
  trials: number
  always: number
  sometimes: number
  never: number
  /** Chance, in percent, that so many trials of a task pass all: pass^k, for k from 2 on. */
  passPower: { k: number; percent: number }[]
}

/** None where a task was tried only once. */
export function reliability(scores: readonly Score[]): Reliability | null {
  const trials = Math.min(...scores.map((score) => score.trials))
  if (scores.length === 0 || trials < 2) return null
  const always = scores.filter((score) => score.passes === score.trials).length
  const never = scores.filter(({ passes }) => passes === 0).length
  const powers = Array.from({ length: trials - 1 }, (_, place) => place + 2)
  return {
    ...{ trials, always, never, sometimes: scores.length - always - never },
    passPower: powers.map((k) => ({ k, percent: (100 * sum(scores.map((each) => allPass(each, k)))) / scores.length })),
  }
}

/** C(passes, k) / C(trials, k): of all ways to take k trials, those in which each has passed. */
function allPass({ passes, trials }: Score, k: number): number {
  let share = 1
  for (let taken = 0; taken < k; taken++) share *= Math.max(0, passes - taken) / (trials - taken)
  return share
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)
