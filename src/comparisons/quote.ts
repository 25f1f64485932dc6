import { smallestDifference } from '../statistics/accuracy.ts'
import { countTrials, type PlanShape } from './plan.ts'
import type { Quote } from './shapes/schema.ts'

/** Cost of earlier trials of a setting: count, sum and sum of squares. */
export type PastUsage = { trials: number; micros: number; squares: number }

/** Estimates cost and statistical power of a comparison. Settings without a model are free; unused settings are unknown. */
export function buildQuote(shape: PlanShape, usage: readonly (PastUsage | 'free' | 'unknown')[]): Quote {
  return {
    tasks: shape.tasks,
    settings: shape.settings,
    trials: countTrials(shape),
    costUsd: estimateCost(shape, usage),
    smallestDifference: smallestDifference(shape.tasks, shape.attempts),
  }
}

function estimateCost(
  { tasks, attempts }: PlanShape,
  usage: readonly (PastUsage | 'free' | 'unknown')[],
): Quote['costUsd'] {
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
