import { expect, test } from 'vitest'
import { computeSmallestDifference } from '../statistics/intervals.ts'
import { adviseOnPower, buildQuote, type CostBasis, type PastUsage, type SettingBasis } from './quote.ts'

/** Trials of a setting that cost 2 USD on average, with a standard deviation of 1 USD. */
const PAST: PastUsage = { trials: 4, micros: 8_000_000, squares: 4 * (4e12 + 1e12) }
const USED: CostBasis = { source: 'measured', ...PAST }
const FREE: CostBasis = { source: 'free' }
/** Assumed to cost 1 USD per trial. */
const NEVER_USED: CostBasis = { source: 'estimated', micros: 1_000_000 }

const SHAPE = { tasks: 10, settings: 1, attempts: 2 }
const LIMITS = { concurrency: 4 }

const toSettings = (costs: readonly CostBasis[], seconds = 60): SettingBasis[] =>
  costs.map((cost, index) => ({ id: `setting-${index}`, cost, duration: { seconds, source: 'estimated' } }))

const quote = (costs: readonly CostBasis[], limits: object = {}, shape: object = {}) =>
  buildQuote({ ...SHAPE, settings: costs.length, ...shape }, toSettings(costs), { ...LIMITS, ...limits })

test('a quote counts trials as tasks × settings × attempts', () => {
  expect(quote([FREE, FREE, FREE])).toMatchObject({
    tasks: 10,
    settings: 3,
    trials: 60,
    perSetting: [{ trials: 20 }, {}, {}],
  })
})

test('a quote contains the smallest difference that its tasks and attempts detect', () => {
  expect(quote([]).smallestDifference).toBe(computeSmallestDifference(10, 2))
})

test('the range of a measured cost is ± two standard errors of the new trials and of the mean of the old ones', () => {
  // 20 trials: 40 USD; the variance is 20 + 20² / 4 = 120 USD².
  const error = 2 * Math.sqrt(120)
  const { costUsd, perSetting } = quote([USED])
  expect(costUsd.expected).toBe(40)
  expect(costUsd.low).toBeCloseTo(40 - error, 5)
  expect(costUsd.high).toBeCloseTo(40 + error, 5)
  expect(perSetting).toMatchObject([{ settingId: 'setting-0', costUsd, source: 'measured', measuredTrials: 4 }])
})

test('the costs and the variances of measured settings add up', () => {
  const error = 2 * Math.sqrt(240)
  const { low, expected, high } = quote([USED, FREE, USED]).costUsd
  expect(expected).toBe(80)
  expect(low).toBeCloseTo(80 - error, 5)
  expect(high).toBeCloseTo(80 + error, 5)
})

test('an estimated cost may be wrong by a factor of three, and such errors do not cancel out', () => {
  expect(quote([NEVER_USED]).costUsd).toEqual({ low: 6.666667, expected: 20, high: 60 })
  const { costUsd, perSetting } = quote([NEVER_USED, NEVER_USED, FREE])
  expect(costUsd).toEqual({ low: 13.333333, expected: 40, high: 120 })
  expect(perSetting.map(({ source }) => source)).toEqual(['estimated', 'estimated', 'free'])
  expect(perSetting.map(({ measuredTrials }) => measuredTrials)).toEqual([0, 0, 0])
})

test('one earlier trial says nothing about the scatter, so its range is that of an estimate', () => {
  const once: CostBasis = { source: 'measured', trials: 1, micros: 1_000_000, squares: 1e12 }
  expect(quote([once]).costUsd).toEqual({ low: 6.666667, expected: 20, high: 60 })
})

test('a cost is never negative and a whole number of micro-dollars', () => {
  expect(quote([{ ...PAST, source: 'measured', squares: 4 * (4e12 + 100e12) }]).costUsd.low).toBe(0)
  const thirds: CostBasis = { source: 'measured', trials: 3, micros: 1, squares: 1 / 3 }
  expect(quote([thirds], {}, { tasks: 1, attempts: 1 }).costUsd.expected).toBe(0)
})

test('rounding in the sum of squares never makes the variance negative', () => {
  const rounded: CostBasis = { source: 'measured', trials: 3, micros: 3_000_000, squares: 3e12 - 1 }
  expect(quote([rounded]).costUsd).toEqual({ low: 20, expected: 20, high: 20 })
})

test('a comparison without models costs nothing', () => {
  expect(quote([FREE])).toMatchObject({ costUsd: { low: 0, expected: 0, high: 0 }, maximumCostUsd: 0 })
  expect(quote([]).costUsd).toEqual({ low: 0, expected: 0, high: 0 })
})

test('a trial budget limits the range of each setting; a measured range below it is unchanged', () => {
  expect(quote([NEVER_USED], { trialBudgetUsd: 2 }).costUsd).toEqual({ low: 6.666667, expected: 20, high: 40 })
  expect(quote([NEVER_USED], { trialBudgetUsd: 0.5 }).costUsd).toEqual({ low: 6.666667, expected: 10, high: 10 })
  expect(quote([USED], { trialBudgetUsd: 2 }).costUsd).toMatchObject({ expected: 40, high: 40 })
  expect(quote([USED], { trialBudgetUsd: 10 })).toMatchObject({ costUsd: quote([USED]).costUsd })
})

test('the maximum is the smaller of the two budgets, and unknown without one', () => {
  expect(quote([USED]).maximumCostUsd).toBeNull()
  expect(quote([USED], { budgetUsd: 5 }).maximumCostUsd).toBe(5)
  const both = quote([USED, NEVER_USED, FREE], { budgetUsd: 50, trialBudgetUsd: 1 })
  expect(both.maximumCostUsd).toBe(40)
  expect(both.perSetting.map(({ maximumCostUsd }) => maximumCostUsd)).toEqual([20, 20, 0])
  expect(quote([USED, NEVER_USED], { budgetUsd: 30, trialBudgetUsd: 1 }).maximumCostUsd).toBe(30)
})

test('a budget does not change the expected cost, so that a reader sees how much of the comparison it covers', () => {
  expect(quote([USED], { budgetUsd: 5 }).costUsd).toEqual(quote([USED]).costUsd)
})

test('the duration is the work divided by the concurrency, and at least one trial', () => {
  expect(quote([FREE, USED])).toMatchObject({ concurrency: 4, durationSeconds: (40 * 60) / 4 })
  expect(quote([FREE], { concurrency: 1000 }).durationSeconds).toBe(60)
  expect(quote([]).durationSeconds).toBe(0)
  expect(quote([FREE]).perSetting).toMatchObject([{ secondsPerTrial: 60, durationSource: 'estimated' }])
})

test.each([
  [24, 1, '24 tasks show differences above 31 points; 3 attempts lower that to 19.'],
  [24, 2, '24 tasks with 2 attempts show differences above 23 points; 3 attempts lower that to 19.'],
  [24, 3, '24 tasks with 3 attempts show differences above 19 points; 48 tasks lower that to 13.'],
  [5, 1, '5 tasks show differences above 68 points; 3 attempts lower that to 42.'],
  [4, 3, '4 tasks cannot show a difference: use at least 5 tasks.'],
  [1, 1, '1 task cannot show a difference: use at least 5 tasks.'],
])('advice for %i tasks and %i attempts', (tasks, attempts, text) => {
  expect(adviseOnPower({ tasks, attempts })).toBe(text)
})
