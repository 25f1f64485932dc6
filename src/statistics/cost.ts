import { quantile } from './student.ts'

/** A mean with its 95 % interval. */
export type MeanInterval = { mean: number; low: number; high: number }

const TASKS_MIN = 5
const LEVEL = 0.05

/**
 * Estimates the cost per task with its 95 % interval, over tasks. Costs are skewed, so the centre of the interval is moved
 * towards the long tail (Johnson's modified t). Undefined below five tasks.
 */
export function estimateCost(micros: readonly number[]): MeanInterval | undefined {
  const interval = estimateMean(micros)
  return interval && { ...interval, low: Math.max(0, interval.low) }
}

/** Estimates the difference in cost between two settings on the same tasks. Undefined below five tasks. */
export const estimateCostDifference = (a: readonly number[], b: readonly number[]): MeanInterval | undefined =>
  estimateMean(a.map((micros, index) => micros - (b[index] ?? 0)))

function estimateMean(values: readonly number[]): MeanInterval | undefined {
  const count = values.length
  if (count < TASKS_MIN) return undefined
  const mean = sum(values) / count
  const deviations = values.map((value) => value - mean)
  const variance = sum(deviations.map((deviation) => deviation ** 2)) / (count - 1)
  if (variance === 0) return { mean, low: mean, high: mean }
  const centre = mean + sum(deviations.map((deviation) => deviation ** 3)) / count / (6 * variance * count)
  const half = quantile(LEVEL, count - 1) * Math.sqrt(variance / count)
  return { mean, low: centre - half, high: centre + half }
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)
