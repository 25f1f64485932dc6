import type { Prices } from '../catalog/model.ts'
import { computeCostMicros } from '../gateway/price.ts'
import { NO_USAGE } from '../gateway/wire-protocol.ts'
import { toMicros, toUsd } from '../platform/usd.ts'
import { computeSmallestDifference, TASKS_MIN } from '../statistics/intervals.ts'
import type { Difficulty } from '../taskgen/schema.ts'
import type { Quote, QuotedSetting } from './costs/schema.ts'
import { countTrials, type PlanShape } from './plan.ts'

/** Cost of earlier trials of a setting: count, sum and sum of squares. */
export type PastUsage = { trials: number; micros: number; squares: number }

/** Basis of a setting's cost. `free`: no model. `measured`: earlier trials. `estimated`: assumed mean cost of a trial. */
export type CostBasis =
  | { source: 'free' }
  | ({ source: 'measured' } & PastUsage)
  | { source: 'estimated'; micros: number }

export type SettingBasis = {
  id: string
  cost: CostBasis
  /** Mean duration of a trial. */
  duration: { seconds: number; source: 'measured' | 'estimated' }
}

type QuoteLimits = {
  budgetUsd?: number | undefined
  trialBudgetUsd?: number | undefined
  /** Number of trials that run at the same time. */
  concurrency: number
}

/** Estimates cost, duration and statistical power of a comparison. */
export function buildQuote(shape: PlanShape, settings: readonly SettingBasis[], limits: QuoteLimits): Quote {
  const trials = shape.tasks * shape.attempts
  const estimates = settings.map((setting) => ({
    setting,
    range: capRange(estimateRange(setting.cost, trials), trials, limits),
  }))
  return {
    tasks: shape.tasks,
    settings: shape.settings,
    trials: countTrials(shape),
    costUsd: toUsdRange(addRanges(estimates.map(({ range }) => range))),
    maximumCostUsd: computeMaximumUsd(settings, trials, limits),
    perSetting: estimates.map(({ setting, range }) => toQuotedSetting(setting, range, trials, limits)),
    durationSeconds: estimateSeconds(settings, trials, limits.concurrency),
    concurrency: limits.concurrency,
    smallestDifference: computeSmallestDifference(shape.tasks, shape.attempts),
    advice: adviseOnPower(shape),
  }
}

/** A range in micro-dollars. `low` and `high` bound the systematic error; `variance` is the random error of the trials. */
type CostRange = { low: number; expected: number; high: number; variance: number }

/** Assumed costs may be wrong by this factor in either direction. */
const ESTIMATE_FACTOR = 3

function estimateRange(cost: CostBasis, trials: number): CostRange {
  if (cost.source === 'free') return { low: 0, expected: 0, high: 0, variance: 0 }
  if (cost.source === 'estimated') return toAssumedRange(trials * cost.micros)
  const mean = cost.micros / cost.trials
  // The variance of a single trial is unknown.
  if (cost.trials === 1) return toAssumedRange(trials * mean)
  const trialVariance = Math.max(0, cost.squares / cost.trials - mean ** 2)
  const expected = trials * mean
  return { low: expected, expected, high: expected, variance: trials * trialVariance * (1 + trials / cost.trials) }
}

const toAssumedRange = (expected: number): CostRange => ({
  low: expected / ESTIMATE_FACTOR,
  expected,
  high: expected * ESTIMATE_FACTOR,
  variance: 0,
})

/** Limits a range to what the trial budget allows. */
function capRange(range: CostRange, trials: number, { trialBudgetUsd }: QuoteLimits): CostRange {
  if (trialBudgetUsd === undefined) return range
  const cap = toMicros(trials * trialBudgetUsd)
  const { low, expected, high } = applyVariance(range)
  if (high <= cap) return range
  return { low: Math.min(low, cap), expected: Math.min(expected, cap), high: Math.min(high, cap), variance: 0 }
}

/** Adds ranges. Systematic errors add up; for random errors, variances add up. */
const addRanges = (ranges: readonly CostRange[]): CostRange =>
  ranges.reduce(
    (sum, { low, expected, high, variance }) => ({
      low: sum.low + low,
      expected: sum.expected + expected,
      high: sum.high + high,
      variance: sum.variance + variance,
    }),
    { low: 0, expected: 0, high: 0, variance: 0 },
  )

/** Widens the range by two standard errors. */
function applyVariance({ low, expected, high, variance }: CostRange): Omit<CostRange, 'variance'> {
  const margin = 2 * Math.sqrt(variance)
  return { low: Math.max(0, low - margin), expected, high: high + margin }
}

function toUsdRange(range: CostRange): Quote['costUsd'] {
  const { low, expected, high } = applyVariance(range)
  return { low: toUsd(low), expected: toUsd(expected), high: toUsd(high) }
}

/** Returns the maximum cost that the budgets allow, or null without budgets. Retries can exceed the trial budget. */
function computeMaximumUsd(
  settings: readonly SettingBasis[],
  trials: number,
  { budgetUsd, trialBudgetUsd }: QuoteLimits,
): number | null {
  const charged = settings.filter(({ cost }) => cost.source !== 'free').length
  if (charged === 0) return 0
  const limits = [budgetUsd, trialBudgetUsd === undefined ? undefined : charged * trials * trialBudgetUsd]
  const givenLimits = limits.filter((limit) => limit !== undefined)
  return givenLimits.length === 0 ? null : toUsd(toMicros(Math.min(...givenLimits)))
}

const toQuotedSetting = (
  setting: SettingBasis,
  range: CostRange,
  trials: number,
  limits: QuoteLimits,
): QuotedSetting => ({
  settingId: setting.id,
  trials,
  costUsd: toUsdRange(range),
  maximumCostUsd: computeMaximumUsd([setting], trials, limits),
  source: setting.cost.source,
  measuredTrials: setting.cost.source === 'measured' ? setting.cost.trials : 0,
  secondsPerTrial: Math.round(setting.duration.seconds * 1000) / 1000,
  durationSource: setting.duration.source,
})

/** Divides the work among the concurrent trials. No comparison is faster than its slowest trial. */
function estimateSeconds(settings: readonly SettingBasis[], trials: number, concurrency: number): number {
  const means = settings.map(({ duration }) => duration.seconds)
  const total = trials * means.reduce((sum, seconds) => sum + seconds, 0)
  return Math.ceil(Math.max(total / concurrency, ...means, 0))
}

/** Further attempts lower the visible difference only slightly. */
const ATTEMPTS_ADVISED = 3

/** States the smallest visible difference, and the change that lowers it most cheaply. */
export function adviseOnPower({ tasks, attempts }: Pick<PlanShape, 'tasks' | 'attempts'>): string {
  if (tasks < TASKS_MIN) return `${plural(tasks, 'task')} cannot show a difference: use at least ${TASKS_MIN} tasks.`
  const points = (moreTasks: number, moreAttempts: number) =>
    Math.round(computeSmallestDifference(moreTasks, moreAttempts))
  const basis = attempts === 1 ? `${tasks} tasks` : `${tasks} tasks with ${attempts} attempts`
  const change =
    attempts < ATTEMPTS_ADVISED
      ? `${ATTEMPTS_ADVISED} attempts lower that to ${points(tasks, ATTEMPTS_ADVISED)}`
      : `${2 * tasks} tasks lower that to ${points(2 * tasks, attempts)}`
  return `${basis} show differences above ${points(tasks, attempts)} points; ${change}.`
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

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

type TrialEstimate = { micros: number; seconds: number }

/** Estimates the mean cost and duration of a trial from prices, reasoning level and the difficulty of the tasks. */
export function estimateTrial(prices: Prices, level: string, tasks: DifficultyCounts): TrialEstimate {
  const factor = LEVEL_FACTORS[level] ?? 1
  const total = { tasks: 0, micros: 0, seconds: 0 }
  for (const difficulty of ['easy', 'medium', 'hard'] as const) {
    const prior = PRIORS[difficulty]
    total.tasks += tasks[difficulty]
    total.micros += tasks[difficulty] * computeTrialMicros(prices, { ...prior, output: prior.output * factor })
    total.seconds += tasks[difficulty] * prior.seconds * factor
  }
  const count = Math.max(1, total.tasks)
  return { micros: total.micros / count, seconds: total.seconds / count }
}

/** Computes the cost of a trial at base rates, because each of its calls is far smaller than the trial and stays below price tiers. */
function computeTrialMicros({ tiers: _, ...rates }: Prices, { input, cacheRead, output }: TrialPrior): number {
  const usage = { ...NO_USAGE, input, cacheRead, output: Math.round(output) }
  return computeCostMicros(usage, { ...rates, cacheRead: rates.cacheRead ?? rates.input }) ?? 0
}
