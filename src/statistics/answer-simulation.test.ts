import { expect, test } from 'vitest'
import { simulateWorlds } from '../../test/support/statistics/worlds.ts'

const percent = (part: number, whole: number): number => (100 * part) / whole

// The short version has the same bars, widened by what chance does to fewer worlds.
const LONG = Boolean(process.env.ASSAY_TEST_LONG)

test('in simulated comparisons verdicts, recommendations and intervals are right as often as promised', () => {
  const counts = simulateWorlds(LONG ? 1000 : 60, 'worlds')
  const [falseMax, low, high] = LONG ? [5, 93, 99.5] : [10, 91, 99.9]
  expect(percent(counts.falseBetter, counts.worlds)).toBeLessThanOrEqual(falseMax)
  expect(percent(counts.badRecommendations, counts.recommended)).toBeLessThanOrEqual(falseMax)
  expect(counts.recommended).toBe(counts.worlds)
  for (const held of [
    percent(counts.accuracyHeld, counts.accuracyIntervals),
    percent(counts.differenceHeld, counts.differenceIntervals),
    percent(counts.costHeld, counts.costIntervals),
  ]) {
    expect(held).toBeGreaterThanOrEqual(low)
    expect(held).toBeLessThanOrEqual(high)
  }
}, 600_000)
