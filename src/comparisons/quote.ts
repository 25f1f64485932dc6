import { type Shape, trialCount } from './plan.ts'
import type { Quote } from './shapes/schema.ts'
import { smallestDifference } from './statistics.ts'

/** What trials of a setting have cost before. */
export type Usage = { trials: number; micros: number; squares: number }

/** What a comparison would cost and could show. A setting without a price is free; one that was never used is unknown. */
export function quoteOf(shape: Shape, usage: readonly (Usage | 'free' | 'unknown')[]): Quote {
  return {
    tasks: shape.tasks,
    settings: shape.settings,
    trials: trialCount(shape),
    costUsd: costOf(shape, usage),
    smallestDifference: smallestDifference(shape.tasks, shape.attempts),
  }
}

function costOf({ tasks, attempts }: Shape, usage: readonly (Usage | 'free' | 'unknown')[]): Quote['costUsd'] {
  let expected = 0
  let variance = 0
  for (const used of usage) {
    if (used === 'unknown') return null
    if (used === 'free') continue
    const mean = used.micros / used.trials
    const scatter = Math.max(0, used.squares / used.trials - mean ** 2)
    const trials = tasks * attempts
    expected += trials * mean
    variance += trials * scatter * (1 + trials / used.trials)
  }
  const error = 2 * Math.sqrt(variance)
  return { low: usd(Math.max(0, expected - error)), expected: usd(expected), high: usd(expected + error) }
}

const usd = (micros: number): number => Math.round(micros) / 1_000_000
