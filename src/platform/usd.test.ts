import { expect, test } from 'vitest'
import { averageUsd, toMicros, toUsd } from './usd.ts'

test.each<[micros: number, tasks: number, usd: number]>([
  [0, 1, 0],
  [1, 1, 0.000001],
  [1, 2, 0.000001],
  [1, 3, 0],
  [3, 2, 0.000002],
  [10_000_000, 3, 3.333333],
  [20_000_000, 3, 6.666667],
  [9_007_199_254_740_991, 1, 9_007_199_254.740_992],
])('%i micro-dollars over %i tasks are %d USD for each', (micros, tasks, usd) => {
  expect(averageUsd(micros, tasks)).toBe(usd)
})

test('converts between USD and whole micro-dollars', () => {
  expect(toUsd(1_500_000)).toBe(1.5)
  expect(toUsd(1.4)).toBe(0.000001)
  expect(toMicros(0.1 + 0.2)).toBe(300_000)
})
