import fc from 'fast-check'
import { expect, test } from 'vitest'
import { computeSmallestDifference, computeWilsonInterval } from './intervals.ts'

/** Wilson's interval with the effective sample size of Korn and Graubard, computed outside of this project. */
test.each<[tasks: number, trials: number, mean: number, variance: number, low: number, high: number]>([
  [5, 5, 1, 0, 0.394651, 1],
  [5, 5, 0, 0, 0, 0.605349],
  [5, 15, 0.4, 0.3, 0.063164, 0.868281],
  [6, 6, 0.5, 0.3, 0.122932, 0.877068],
  [8, 24, 0.9, 0.02, 0.60499, 0.981442],
  [8, 24, 0.1, 0.02, 0.018558, 0.39501],
  [10, 30, 0.7, 0.1, 0.436661, 0.875372],
  [24, 24, 0.6, 0.25, 0.389813, 0.778859],
  [24, 72, 0.6, 0.01, 0.478219, 0.710561],
  [50, 150, 0.2, 0.12, 0.119526, 0.315257],
  [20, 40, 0.5, 0, 0.288057, 0.711943],
  [9, 90, 0.5, 0.0001, 0.381721, 0.618279],
  [7, 7, 0.3, 2, 0.01388, 0.92882],
])('%i tasks with %i trials, mean %d and variance %d', (tasks, trials, mean, variance, low, high) => {
  const found = computeWilsonInterval({ tasks, trials, mean, variance })
  expect(found?.low).toBeCloseTo(low, 6)
  expect(found?.high).toBeCloseTo(high, 6)
})

test('there is no interval below five tasks', () => {
  for (const tasks of [0, 1, 4])
    expect(computeWilsonInterval({ tasks, trials: tasks, mean: 0.5, variance: 0.1 })).toBeUndefined()
  expect(computeWilsonInterval({ tasks: 5, trials: 5, mean: 0.5, variance: 0.1 })).toBeDefined()
})

const samples = fc
  .record({
    tasks: fc.integer({ min: 5, max: 200 }),
    attempts: fc.integer({ min: 1, max: 10 }),
    passes: fc.double({ min: 0, max: 1, noNaN: true }),
    share: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  .map(({ tasks, attempts, passes, share }) => {
    const mean = Math.round(passes * tasks * attempts) / (tasks * attempts)
    // Tasks that pass always or never scatter most.
    return { tasks, trials: tasks * attempts, mean, variance: (share * mean * (1 - mean) * tasks) / (tasks - 1) }
  })

test('an interval contains its mean, lies between 0 and 1, and is never empty', () => {
  fc.assert(
    fc.property(samples, (sample) => {
      const { low, high } = computeWilsonInterval(sample) ?? { low: 2, high: -1 }
      expect(low).toBeGreaterThanOrEqual(0)
      expect(high).toBeLessThanOrEqual(1)
      expect(low).toBeLessThan(high)
      expect(low).toBeLessThanOrEqual(sample.mean + 1e-12)
      expect(high).toBeGreaterThanOrEqual(sample.mean - 1e-12)
    }),
  )
})

test('the interval of failures mirrors the interval of passes', () => {
  fc.assert(
    fc.property(samples, (sample) => {
      const [passes, failures] = [
        computeWilsonInterval(sample),
        computeWilsonInterval({ ...sample, mean: 1 - sample.mean }),
      ]
      expect(failures?.low).toBeCloseTo(1 - (passes?.high ?? 0), 9)
      expect(failures?.high).toBeCloseTo(1 - (passes?.low ?? 0), 9)
    }),
  )
})

test.each<[tasks: number, attempts: number, points: number]>([
  [24, 1, 30.99],
  [24, 3, 19.04],
  [50, 3, 13.19],
  [100, 3, 9.33],
  [100, 1, 15.18],
  [1, 1, 100],
])('%i tasks with %i attempts detect a difference of %d points', (tasks, attempts, points) => {
  expect(computeSmallestDifference(tasks, attempts)).toBeCloseTo(points, 1)
})
