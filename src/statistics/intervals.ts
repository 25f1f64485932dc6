import { quantile } from './student.ts'

/** Results of one setting: mean and variance of the pass shares of its tasks. */
type SettingSample = { tasks: number; trials: number; mean: number; variance: number }

const Z_95 = 1.959963984540054
/** Minimum number of tasks for intervals, tests and verdicts. With fewer they are unreliable. */
export const TASKS_MIN = 5

/**
 * Computes the Wilson 95 % interval with the effective sample size of Korn and Graubard: trials of one task are not
 * independent, so tasks are the sampling unit. Undefined below five tasks, where the interval is unreliable.
 */
export function computeWilsonInterval({
  tasks,
  trials,
  mean,
  variance,
}: SettingSample): { low: number; high: number } | undefined {
  if (tasks < TASKS_MIN) return undefined
  const varianceOfMean = adjustVariance(variance / tasks, mean, tasks)
  const effectiveSize = variance === 0 ? tasks : clamp((mean * (1 - mean)) / varianceOfMean, 1, trials)
  const size = effectiveSize * (Z_95 / approximateQuantile(tasks - 1)) ** 2
  const centre = (mean + Z_95 ** 2 / (2 * size)) / (1 + Z_95 ** 2 / size)
  const half = (Z_95 * Math.sqrt((mean * (1 - mean)) / size + Z_95 ** 2 / (4 * size ** 2))) / (1 + Z_95 ** 2 / size)
  return { low: Math.max(0, centre - half), high: Math.min(1, centre + half) }
}

/** Prior weight in tasks. Found by simulation: with less, intervals near 0 and 1 are too narrow from two trials on. */
const PRIOR_TASKS = 0.5

/**
 * Raises the variance of the mean towards its maximum if few tasks differ from the majority, because the estimate of the
 * variance is then poor.
 */
function adjustVariance(varianceOfMean: number, mean: number, tasks: number): number {
  const maximum = (mean * (1 - mean)) / tasks
  const minorityTasks = tasks * Math.min(mean, 1 - mean)
  const raised = (minorityTasks * varianceOfMean + PRIOR_TASKS * maximum) / (minorityTasks + PRIOR_TASKS)
  return Math.max(varianceOfMean, raised)
}

const clamp = (value: number, low: number, high: number): number => Math.min(high, Math.max(low, value))

/** Approximates the 97.5 % quantile of Student's t by the Cornish-Fisher expansion, to 0.01 from four degrees of freedom. */
function approximateQuantile(degrees: number): number {
  const z3 = (Z_95 ** 3 + Z_95) / 4
  const z5 = (5 * Z_95 ** 5 + 16 * Z_95 ** 3 + 3 * Z_95) / 96
  const z7 = (3 * Z_95 ** 7 + 19 * Z_95 ** 5 + 17 * Z_95 ** 3 - 15 * Z_95) / 384
  return Z_95 + z3 / degrees + z5 / degrees ** 2 + z7 / degrees ** 3
}

// Variance between tasks of the difference of two settings, and variance between trials of one task.
// From simulations with tasks of mixed difficulty.
const TASK_VARIANCE = 0.019
const TRIAL_VARIANCE = 0.275
/** z(97.5 %) + z(80 %): significance 5 %, power 80 %. */
const CRITICAL_VALUES_SUM = 2.8

/** Returns the smallest difference in accuracy between two settings, in percentage points, that is detected with 80 % power. */
export const computeSmallestDifference = (tasks: number, attempts: number): number =>
  Math.min(100, 100 * CRITICAL_VALUES_SUM * Math.sqrt((TASK_VARIANCE + TRIAL_VARIANCE / attempts) / tasks))

export type MeanInterval = { mean: number; low: number; high: number }

const SIGNIFICANCE_LEVEL = 0.05

/** Estimates the cost per task with its 95 % interval, over tasks. Undefined below five tasks. */
export function estimateCost(micros: readonly number[]): MeanInterval | undefined {
  const interval = estimateMean(micros)
  return interval && { ...interval, low: Math.max(0, interval.low) }
}

/**
 * Estimates a mean with its 95 % interval. Costs are skewed, so the centre of the interval is moved towards the long tail
 * (Johnson's modified t). Undefined below five values.
 */
export function estimateMean(values: ArrayLike<number>): MeanInterval | undefined {
  const count = values.length
  if (count < TASKS_MIN) return undefined
  let sum = 0
  for (let index = 0; index < count; index++) sum += values[index] ?? 0
  const mean = sum / count
  let [squares, cubes] = [0, 0]
  for (let index = 0; index < count; index++) {
    const deviation = (values[index] ?? 0) - mean
    squares += deviation * deviation
    cubes += deviation * deviation * deviation
  }
  const variance = squares / (count - 1)
  if (variance === 0) return { mean, low: mean, high: mean }
  const centre = mean + cubes / count / (6 * variance * count)
  const half = quantile(SIGNIFICANCE_LEVEL, count - 1) * Math.sqrt(variance / count)
  return { mean, low: centre - half, high: centre + half }
}
