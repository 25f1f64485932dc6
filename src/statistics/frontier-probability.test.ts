import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type BootstrapResults, estimateFrontierProbabilities, listFrontier } from './frontier.ts'

const SEED = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const track = (id: string, passed: string, micros: readonly number[]): BootstrapResults => ({
  id,
  passed: [...passed].map((sign) => sign === '+'),
  micros,
})
const probabilities = (...tracks: BootstrapResults[]) => Object.fromEntries(estimateFrontierProbabilities(tracks, SEED))

test('with a single task every draw is equal, so that the frontier rule alone decides', () => {
  const tracks = fc.uniqueArray(
    fc.record({ id: fc.constantFrom(...'abcdef'), isPassed: fc.boolean(), micros: fc.nat(3) }),
    { selector: ({ id }) => id, minLength: 1 },
  )
  fc.assert(
    fc.property(tracks, (all) => {
      const found = estimateFrontierProbabilities(
        all.map(({ id, isPassed, micros }) => ({ id, passed: [isPassed], micros: [micros] })),
        SEED,
      )
      const unbeaten = listFrontier(
        all.map(({ id, isPassed, micros }) => ({ id, micros, tasks: 1, passed: Number(isPassed) })),
      )
      for (const { id } of all) expect(found.get(id)).toBe(unbeaten.includes(id) ? 1 : 0)
    }),
    { numRuns: 50 },
  )
})

test.each<[guarantee: string, tracks: BootstrapResults[], expected: Record<string, number>]>([
  ['exact ties stay together', [track('a', '+-+', [1, 2, 3]), track('b', '+-+', [1, 2, 3])], { a: 1, b: 1 }],
  [
    'of equal accuracy the dearer one is beaten unless the draw makes them tie',
    [track('a', '++', [1, 1]), track('b', '++', [1, 2])].reverse(),
    { a: 1, b: 0.25 },
  ],
  [
    'of equal cost the less accurate one is beaten',
    [track('a', '--', [1, 1]), track('b', '++', [1, 1])],
    { a: 0, b: 1 },
  ],
  ['without any pass the cheapest is', [track('a', '--', [3, 3]), track('b', '--', [2, 2])], { a: 0, b: 1 }],
  ['a setting that costs nothing and passes is', [track('a', '++', [0, 0]), track('b', '++', [1, 1])], { a: 1, b: 0 }],
])('%s', (_, tracks, expected) => {
  const found = probabilities(...tracks)
  for (const [id, probability] of Object.entries(expected))
    expect(Math.abs((found[id] ?? -1) - probability)).toBeLessThan(0.04)
})

test('the probability matches drawing as many tasks as exist, with replacement', () => {
  // The dear setting is ahead unless both draws take the first task; the cheap one is beaten if both take the second.
  const found = probabilities(track('cheap', '+-', [1, 1]), track('dear', '++', [5, 5]))
  expect(Math.abs((found.cheap ?? 0) - 3 / 4)).toBeLessThan(0.04)
  expect(Math.abs((found.dear ?? 0) - 3 / 4)).toBeLessThan(0.04)
  // The second setting is the cheaper one whenever the third task is drawn.
  const third = probabilities(track('a', '+++', [1, 1, 4]), track('b', '+++', [2, 2, 1]))
  expect(Math.abs((third.b ?? 0) - (1 - (2 / 3) ** 3))).toBeLessThan(0.04)
  expect((third.a ?? 0) + (third.b ?? 0)).toBeCloseTo(1, 12)
})

test('the same seed always gives the same probabilities, because published releases contain them', () => {
  const found = probabilities(
    track('a', '++-+--+-', [3, 1, 4, 1, 5, 9, 2, 6]),
    track('b', '+--+-++-', [2, 7, 1, 8, 2, 8, 1, 8]),
    track('c', '-++++-++', [9, 7, 9, 3, 2, 3, 8, 4]),
  )
  expect(found).toEqual({ a: 0.658, b: 0.375, c: 0.761 })
})

test('without settings there are no probabilities, and settings without tasks have probability 0', () => {
  expect(probabilities()).toEqual({})
  expect(probabilities(track('a', '', []), track('b', '', []))).toEqual({ a: 0, b: 0 })
})
