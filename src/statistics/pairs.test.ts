import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { computeStatistics } from './comparison-statistics.ts'
import { estimateCost, estimateMean } from './intervals.ts'
import { estimateDifference } from './paired.ts'
import {
  comparePairs,
  decideVerdicts,
  flipPair,
  measurePair,
  type SettingResults,
  selectSignificant,
  toAlignedScores,
  toOutcome,
} from './pairs.ts'

/** One character per task: `+` passed, `-` failed, `.` no result. Every task costs the same. */
const results = (text: string, micros = 1000): SettingResults => ({
  trials: Float64Array.from(text, (sign) => Number(sign !== '.')),
  passes: Float64Array.from(text, (sign) => Number(sign === '+')),
  passed: Float64Array.from(text, (sign) => Number(sign === '+')),
  micros: Float64Array.from(text, (sign) => (sign === '.' ? Number.NaN : micros)),
})

describe('Holm', () => {
  test.each<[probabilities: number[], expected: boolean[]]>([
    [[], []],
    [[0.04], [true]],
    [[0.06], [false]],
    [
      [0.04, 0.03],
      [false, false],
    ],
    [
      [0.04, 0.02],
      [true, true],
    ],
    [
      [0.03, 0.001, 0.2],
      [false, true, false],
    ],
    [
      [0.01, 0.02, 0.04],
      [true, true, true],
    ],
    [
      [0.9, 0.001, 0.0001],
      [false, true, true],
    ],
  ])('the p-values %j are significant: %j', (probabilities, expected) => {
    expect(selectSignificant(probabilities)).toEqual(expected)
  })
})

test('shared tasks are counted by who passed them', () => {
  const [pair] = comparePairs([results('++--.+'), results('+-+-+.')])
  expect(pair).toMatchObject({ a: 0, b: 1, tasks: 4, wonByA: 1, wonByB: 1, both: 1, neither: 1 })
  expect(pair).toMatchObject({ verdict: 'cannot_tell', isSingle: true, difference: undefined, cost: undefined })
})

test('settings without a shared task have a pair with zero tasks', () => {
  expect(comparePairs([results('++++++......'), results('......------')])).toMatchObject([
    { tasks: 0, wonByA: 0, wonByB: 0, both: 0, neither: 0, verdict: 'cannot_tell', difference: undefined },
  ])
})

test('reports a large difference from both sides; the cost difference has the sign of the first setting', () => {
  const [pair] = comparePairs([results('++++++++++++', 3000), results('------------', 1000)])
  if (!pair) throw new Error('One pair expected')
  expect(pair).toMatchObject({ verdict: 'better', wonByA: 12, cost: { mean: 2000, low: 2000, high: 2000 } })
  expect(flipPair(pair)).toMatchObject({
    a: 1,
    b: 0,
    verdict: 'worse',
    wonByA: 0,
    wonByB: 12,
    difference: { mean: -1, low: -1, wins: 0, losses: 12 },
    cost: { mean: -2000 },
  })
})

test('a difference equals the paired estimate, and flipping twice changes nothing', () => {
  const text = fc.string({ unit: fc.constantFrom('+', '-', '.'), minLength: 12, maxLength: 12 })
  fc.assert(
    fc.property(text, text, (one, other) => {
      const [a, b] = [results(one), results(other)]
      const [pair] = comparePairs([a, b])
      if (!pair) throw new Error('One pair expected')
      const expected = estimateDifference(toAlignedScores(a), toAlignedScores(b))
      expect(pair.difference === undefined).toBe(expected === undefined)
      if (expected) expect(pair.difference).toMatchObject(expected)
      expect(pair.wonByA + pair.wonByB + pair.both + pair.neither).toBe(pair.tasks)
      expect(flipPair(flipPair(pair))).toEqual(pair)
    }),
  )
})

test('an unknown cost leaves the cost of its pairs and its setting undefined', () => {
  const unknown = results('++++++')
  unknown.micros[2] = Number.NaN
  const { pairs, settings } = computeStatistics([unknown, results('++++++')])
  expect(pairs[0]?.cost).toBeUndefined()
  expect(settings[0]).toMatchObject({ tasks: 6, meanMicros: undefined, cost: undefined })
  expect(settings[0]?.frontierProbability).toBeUndefined()
  expect(settings[1]).toMatchObject({ meanMicros: 1000, cost: { mean: 1000, low: 1000, high: 1000 } })
  expect(settings[1]?.frontierProbability).toBe(1)
})

test('the interval of a cost contains its mean, is not negative, and is missing below five tasks', () => {
  expect(estimateCost([1, 2, 3, 4])).toBeUndefined()
  const symmetric = estimateCost([1, 2, 3, 4, 5])
  // Mean 3 ± t(97.5 %, 4) · √(2.5 / 5)
  expect(symmetric?.mean).toBe(3)
  expect(symmetric?.low).toBeCloseTo(3 - 2.776445 * Math.sqrt(0.5), 5)
  expect(symmetric?.high).toBeCloseTo(3 + 2.776445 * Math.sqrt(0.5), 5)
  const skewed = estimateCost([1, 1, 1, 1, 100])
  expect(skewed?.low).toBe(0)
  const { mean = 0, high = 0 } = skewed ?? {}
  expect(high - mean).toBeGreaterThan(2.776445 * Math.sqrt((4 * 19.8 ** 2 + 79.2 ** 2) / 4 / 5))
  expect(estimateMean([1, 1, 1, 1, 1])).toEqual({ mean: 1, low: 1, high: 1 })
})

test('ranks follow from the verdicts, and settings without results have none', () => {
  const { settings } = computeStatistics([
    results('+++++++++++++++'),
    results('+++++++++++++++'),
    results('---------------'),
    results('...............'),
  ])
  expect(settings.map(({ rank }) => rank)).toEqual([
    { best: 1, worst: 3 },
    { best: 1, worst: 3 },
    { best: 3, worst: 4 },
    undefined,
  ])
})

test('the same results always give the same statistics', () => {
  const all = [results('+-+-+-++', 10), results('++-+-+-+', 30), results('--+++-+-', 5)]
  expect(computeStatistics(all)).toEqual(computeStatistics(all))
  expect(computeStatistics([])).toEqual({ settings: [], pairs: [] })
})

test('a pair that cannot be measured does not count in the correction for several pairs', () => {
  const [pair] = comparePairs([results('+++++++++-'), results('----------')])
  const difference = pair?.difference
  if (!difference) throw new Error('Ten shared tasks have a difference.')
  const unlikely = { difference: { ...difference, probability: 0.04 } }
  expect(decideVerdicts([{ difference: undefined }, unlikely, { difference: undefined }])).toMatchObject([
    { verdict: 'cannot_tell' },
    { verdict: 'better' },
    { verdict: 'cannot_tell' },
  ])
})

test('a pair is measured the same with and without prepared scores', () => {
  const [a, b] = [results('++++++-+'), results('+--+-+--')]
  const prepared = measurePair({ results: a, scores: toAlignedScores(a) }, { results: b, scores: toAlignedScores(b) })
  expect(measurePair({ results: a }, { results: b })).toEqual(prepared)
})

test.each([
  [true, true, 'both'],
  [true, false, 'wonByA'],
  [false, true, 'wonByB'],
  [false, false, 'neither'],
] as const)('a task that passed with a: %s and with b: %s is %s', (byA, byB, outcome) => {
  expect(toOutcome(byA, byB)).toBe(outcome)
})

test('the difference in cost leaves out tasks that one of the settings lacks, even if their cost is known', () => {
  const [a, b] = [results('.++++++', 1000), results('++++++.', 3000)]
  a.micros[0] = 500_000
  b.micros[6] = 700_000
  expect(measurePair({ results: a }, { results: b }).cost).toEqual({
    mean: -2000,
    low: -2000,
    high: -2000,
  })
})

test('the other side of a pair has the opposite difference', () => {
  const [pair] = comparePairs([results('++++++++++'), results('---+------')])
  if (!pair?.difference) throw new Error('Ten shared tasks have a difference.')
  expect(pair.difference.centre).toBeGreaterThan(0)
  expect(flipPair(pair).difference).toMatchObject({ centre: -pair.difference.centre, mean: -pair.difference.mean })
})
