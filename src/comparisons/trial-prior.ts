import type { Prices } from '../catalog/model.ts'
import { computeCostMicros } from '../gateway/price.ts'
import { NO_USAGE } from '../gateway/wire-protocol.ts'
import type { Difficulty } from '../taskgen/schema.ts'

/** Assumed usage of one trial at reasoning level medium. `input` excludes cached tokens. */
type TrialPrior = { input: number; cacheRead: number; output: number; seconds: number }

/**
 * Assumptions about a setting that never ran in the workspace, by difficulty of the task. They are not measurements:
 * quotes label them `estimated` and give a wide range.
 */
const PRIORS: Record<Difficulty, TrialPrior> = {
  easy: { input: 50_000, cacheRead: 250_000, output: 6_000, seconds: 180 },
  medium: { input: 80_000, cacheRead: 500_000, output: 12_000, seconds: 420 },
  hard: { input: 150_000, cacheRead: 1_200_000, output: 25_000, seconds: 900 },
}

/** Factors for output and time by reasoning level. */
const LEVEL_FACTORS: Record<string, number> = {
  none: 0.5,
  minimal: 0.6,
  low: 0.7,
  medium: 1,
  high: 1.5,
  xhigh: 2,
  max: 2.5,
}

/** Assumed duration of a trial without a model. */
export const MODEL_FREE_SECONDS = 60

/** Numbers of tasks by difficulty. Tasks of unknown difficulty count as medium. */
export type DifficultyCounts = Record<Difficulty, number>

export type TrialEstimate = { micros: number; seconds: number }

/** Estimates the mean cost and duration of a trial from prices, reasoning level and the difficulty of the tasks. */
export function estimateTrial(prices: Prices, level: string, tasks: DifficultyCounts): TrialEstimate {
  const factor = LEVEL_FACTORS[level] ?? 1
  const total = { tasks: 0, micros: 0, seconds: 0 }
  for (const difficulty of ['easy', 'medium', 'hard'] as const) {
    const prior = PRIORS[difficulty]
    total.tasks += tasks[difficulty]
    total.micros += tasks[difficulty] * priceTrial(prices, { ...prior, output: prior.output * factor })
    total.seconds += tasks[difficulty] * prior.seconds * factor
  }
  const count = Math.max(1, total.tasks)
  return { micros: total.micros / count, seconds: total.seconds / count }
}

/** Prices a trial at base rates, because each of its calls is far smaller than the trial and stays below price tiers. */
function priceTrial({ tiers: _, ...rates }: Prices, { input, cacheRead, output }: TrialPrior): number {
  const usage = { ...NO_USAGE, input, cacheRead, output: Math.round(output) }
  return computeCostMicros(usage, { ...rates, cacheRead: rates.cacheRead ?? rates.input }) ?? 0
}
