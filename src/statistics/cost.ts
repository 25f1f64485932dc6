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

/** Estimates a mean with its 95 % interval. Undefined below five values. */
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
  const half = quantile(LEVEL, count - 1) * Math.sqrt(variance / count)
  return { mean, low: centre - half, high: centre + half }
}
