import { expect, test } from 'vitest'
import { estimateTrial } from './quote.ts'

const PRICES = { input: 2, output: 10, cacheRead: 0.2 }
const MEDIUM = { easy: 0, medium: 1, hard: 0 }

test('a trial costs the assumed tokens at the current prices', () => {
  // 80,000 × 2 + 500,000 × 0.2 + 12,000 × 10 micro-dollars.
  expect(estimateTrial(PRICES, 'medium', MEDIUM)).toEqual({ micros: 380_000, seconds: 420 })
})

test('without a price for cached input, cached tokens cost as much as other input', () => {
  expect(estimateTrial({ input: 2, output: 10 }, 'medium', MEDIUM).micros).toBe(1_280_000)
})

test('price tiers do not apply, because a trial consists of many calls', () => {
  const tiers = [{ aboveInputTokens: 200_000, input: 4, output: 20, cacheRead: 0.4 }]
  expect(estimateTrial({ ...PRICES, tiers }, 'medium', MEDIUM)).toEqual(estimateTrial(PRICES, 'medium', MEDIUM))
})

test('harder tasks and higher reasoning levels cost more and take longer', () => {
  const easy = estimateTrial(PRICES, 'medium', { easy: 3, medium: 0, hard: 0 })
  const medium = estimateTrial(PRICES, 'medium', { easy: 0, medium: 3, hard: 0 })
  const hard = estimateTrial(PRICES, 'medium', { easy: 0, medium: 0, hard: 3 })
  const high = estimateTrial(PRICES, 'high', MEDIUM)
  for (const [less, more] of [
    [easy, medium],
    [medium, hard],
    [medium, high],
  ] as const) {
    expect(more.micros).toBeGreaterThan(less.micros)
    expect(more.seconds).toBeGreaterThan(less.seconds)
  }
})

test('the estimate is the mean over the tasks; an unknown level counts as medium', () => {
  const [easy, hard] = [
    estimateTrial(PRICES, 'low', { easy: 1, medium: 0, hard: 0 }),
    estimateTrial(PRICES, 'low', { easy: 0, medium: 0, hard: 1 }),
  ]
  const mixed = estimateTrial(PRICES, 'low', { easy: 3, medium: 0, hard: 1 })
  expect(mixed.micros).toBeCloseTo((3 * easy.micros + hard.micros) / 4)
  expect(mixed.seconds).toBeCloseTo((3 * easy.seconds + hard.seconds) / 4)
  expect(estimateTrial(PRICES, 'extreme', MEDIUM)).toEqual(estimateTrial(PRICES, 'medium', MEDIUM))
  expect(estimateTrial(PRICES, 'low', { easy: 0, medium: 0, hard: 0 })).toEqual({ micros: 0, seconds: 0 })
})
