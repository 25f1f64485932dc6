import { expect, test } from 'vitest'
import { buildQuote, type PastUsage } from './quote.ts'

/** Trials of a setting that cost 2 USD on average, with a standard deviation of 1 USD. */
const USED: PastUsage = { trials: 4, micros: 8_000_000, squares: 4 * (4e12 + 1e12) }
const SHAPE = { tasks: 10, settings: 1, attempts: 2 }

test('a quote counts trials as tasks × settings × attempts', () => {
  expect(buildQuote({ tasks: 10, settings: 3, attempts: 2 }, [])).toMatchObject({ tasks: 10, settings: 3, trials: 60 })
})

test('a quote contains the smallest difference that its tasks and attempts detect', () => {
  const more = buildQuote({ ...SHAPE, tasks: 50 }, []).smallestDifference
  expect(more).toBeLessThan(buildQuote(SHAPE, []).smallestDifference)
  expect(buildQuote({ ...SHAPE, attempts: 3 }, []).smallestDifference).toBeLessThan(
    buildQuote(SHAPE, []).smallestDifference,
  )
})

test('the range is ± two standard errors of the new trials and of the mean of the old ones', () => {
  // 20 trials: 40 USD; the variance is 20 + 20² / 4 = 120 USD².
  const error = 2 * Math.sqrt(120)
  const { low, expected, high } = buildQuote(SHAPE, [USED]).costUsd ?? {}
  expect(expected).toBe(40)
  expect(low).toBeCloseTo(40 - error, 5)
  expect(high).toBeCloseTo(40 + error, 5)
})

test('the costs and the variances of settings add up', () => {
  const error = 2 * Math.sqrt(240)
  const { low, expected, high } = buildQuote({ ...SHAPE, settings: 3 }, [USED, 'free', USED]).costUsd ?? {}
  expect(expected).toBe(80)
  expect(low).toBeCloseTo(80 - error, 5)
  expect(high).toBeCloseTo(80 + error, 5)
})

test('a cost is never negative and a whole number of micro-dollars', () => {
  const wide = { ...USED, squares: 4 * (4e12 + 100e12) }
  expect(buildQuote(SHAPE, [wide]).costUsd?.low).toBe(0)
  const thirds = { trials: 3, micros: 1, squares: 1 / 3 }
  const { expected } = buildQuote({ tasks: 1, settings: 1, attempts: 1 }, [thirds]).costUsd ?? {}
  expect(expected).toBe(0)
})

test('rounding in the sum of squares never makes the variance negative', () => {
  const rounded = { trials: 3, micros: 3_000_000, squares: 3e12 - 1 }
  expect(buildQuote(SHAPE, [rounded]).costUsd).toEqual({ low: 20, expected: 20, high: 20 })
})

test('one setting of unknown cost makes the total unknown, in any position', () => {
  for (const usage of [[USED, 'unknown'] as const, ['unknown', 'free'] as const, ['unknown'] as const])
    expect(buildQuote(SHAPE, usage).costUsd).toBeNull()
  expect(buildQuote(SHAPE, []).costUsd).toEqual({ low: 0, expected: 0, high: 0 })
})
