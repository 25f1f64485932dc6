import fc from 'fast-check'
import { expect, test } from 'vitest'
import { oneSidedPValue, quantile, twoSidedPValue } from './student.ts'

/** Few degrees of freedom have closed forms. */
const CLOSED_FORMS: [degrees: number, probability: (t: number) => number][] = [
  [1, (t) => 1 - (2 / Math.PI) * Math.atan(t)],
  [2, (t) => 1 - t / Math.sqrt(2 + t * t)],
  [3, (t) => 1 - (2 / Math.PI) * (Math.atan(t / Math.sqrt(3)) + t / Math.sqrt(3) / (1 + (t * t) / 3))],
  [4, (t) => 1 - (1 + 2 / (4 + t * t)) * (t / Math.sqrt(4 + t * t))],
]
const VALUES = [0, 0.001, 0.1, 0.5, 0.9, 1, 1.1, 1.5, 2, 2.5, 3, 4, 6, 10, 30]

test.each(CLOSED_FORMS)(
  'with %i degrees of freedom both tails are those of the closed form',
  (degrees, probability) => {
    for (const t of VALUES) expect(twoSidedPValue(t, degrees)).toBeCloseTo(probability(t), 12)
  },
)

test.each<[t: number, degrees: number, probability: number]>([
  [3.5, 6, 0.0128263383328],
  [0.2, 9, 0.8459266393145],
  [2.5, 19, 0.0217404111684],
  [4.2, 25, 0.000296003898928],
  [1.96, 400, 0.050689670300041],
])('the tail beyond %d with %i degrees of freedom is %d, as numerical integration gives', (t, degrees, probability) => {
  expect(twoSidedPValue(t, degrees)).toBeCloseTo(probability, 12)
  expect(twoSidedPValue(-t, degrees)).toBe(twoSidedPValue(t, degrees))
})

test('one tail is half of both, and both directions add up to 1', () => {
  for (const t of VALUES) {
    expect(oneSidedPValue(t, 7)).toBe(twoSidedPValue(t, 7) / 2)
    expect(oneSidedPValue(t, 7) + oneSidedPValue(-t, 7)).toBeCloseTo(1, 14)
  }
  expect(oneSidedPValue(0, 7)).toBe(0.5)
})

test('the tails vanish at infinity and add up to 1 at 0', () => {
  for (const degrees of [1, 6, 100]) {
    expect(twoSidedPValue(0, degrees)).toBe(1)
    expect(twoSidedPValue(1e200, degrees)).toBe(0)
    expect(twoSidedPValue(Number.POSITIVE_INFINITY, degrees)).toBe(0)
    expect(twoSidedPValue(Number.NEGATIVE_INFINITY, degrees)).toBe(0)
  }
})

/** The quantile is cached, so each run of a test asks for degrees of freedom that were not used before. */
let used = 6
const newDegrees = (): number => {
  used += 1 / 1024
  return used
}

test('a quantile inverts the tail probability', () => {
  fc.assert(
    fc.property(fc.double({ min: 0.0001, max: 0.9999, noNaN: true }), (probability) => {
      const degrees = newDegrees()
      const t = quantile(probability, degrees)
      expect(twoSidedPValue(t, degrees)).toBeCloseTo(probability, 10)
      expect(quantile(probability, degrees)).toBe(t)
    }),
    { numRuns: 20 },
  )
})

test('quantiles of other probabilities and other degrees of freedom are not confused', () => {
  const degrees = Math.ceil(newDegrees())
  const [one, other, more] = [quantile(0.05, degrees), quantile(0.01, degrees), quantile(0.05, degrees + 1)]
  expect(other).toBeGreaterThan(one)
  expect(more).toBeLessThan(one)
  expect(quantile(0.05, degrees)).toBe(one)
})

test.each<[degrees: number, t: number]>([
  [1, 12.7062047362],
  [5, 2.5705818356],
  [10, 2.228138852],
  [30, 2.0422724563],
  [1000, 1.9623390808],
])('the 95 %% quantile with %i degrees of freedom is %d', (degrees, t) => {
  expect(quantile(0.05, degrees)).toBeCloseTo(t, 9)
})
