import fc from 'fast-check'
import { expect, test } from 'vitest'
import { listFrontier, type Point } from './frontier.ts'

const point = (id: string, passed: number, micros: number, tasks = 10): Point => ({ id, tasks, passed, micros })

test.each<[guarantee: string, points: Point[], ids: string[]]>([
  ['no settings make an empty frontier', [], []],
  ['a single setting is its own frontier', [point('a', 5, 10)], ['a']],
  ['a more accurate setting may cost more', [point('a', 5, 10), point('b', 6, 20), point('c', 5, 20)], ['a', 'b']],
  ['of two settings with equal cost the less accurate one is beaten', [point('a', 5, 10), point('b', 6, 10)], ['b']],
  ['of two settings with equal accuracy the dearer one is beaten', [point('a', 5, 11), point('b', 5, 10)], ['b']],
  [
    'equal average cost is a tie of costs also when the settings have different numbers of tasks',
    [point('a', 5, 10, 10), point('b', 12, 20, 20)],
    ['b'],
  ],
  [
    'equal accuracy is a tie of accuracies also when the settings have different numbers of tasks',
    [point('a', 5, 10, 10), point('b', 10, 21, 20)],
    ['a'],
  ],
  ['exact ties all stay, by id', [point('b', 5, 10), point('c', 5, 10), point('a', 5, 10)], ['a', 'b', 'c']],
  ['one third is exactly a hundred of 300', [point('third', 1, 1, 3), point('same', 100, 100, 300)], ['same', 'third']],
  [
    'an exact tie of two settings does not save a setting that both beat',
    [point('a', 5, 9), point('b', 5, 9), point('c', 4, 9)],
    ['a', 'b'],
  ],
  ['a setting that costs nothing stays', [point('free', 1, 0), point('dear', 9, 10)], ['free', 'dear']],
  [
    'a setting that passed nothing is left out although it is the cheapest',
    [point('none', 0, 1), point('b', 5, 10)],
    ['b'],
  ],
  ['when no setting passed anything the cheapest one is the frontier', [point('x', 0, 3), point('y', 0, 2)], ['y']],
  ['when no setting passed anything the cheapest ones tie', [point('y', 0, 2), point('x', 0, 2)], ['x', 'y']],
  ['the order is by cost and not by id', [point('z', 1, 1), point('m', 2, 2), point('a', 3, 3)], ['z', 'm', 'a']],
  [
    'a difference of one micro-dollar counts where floating point has no room for it',
    [point('a', 5, 9_007_199_254_740_991, 1_000_003), point('b', 5, 9_007_199_254_740_990, 1_000_003)],
    ['b'],
  ],
  [
    'a difference of one pass counts where floating point has no room for it',
    [
      point('a', 9_007_199_254_740_989, 0, 9_007_199_254_740_991),
      point('b', 9_007_199_254_740_990, 0, 9_007_199_254_740_991),
    ],
    ['b'],
  ],
])('%s', (_, points, ids) => {
  expect(listFrontier(points)).toEqual(ids)
  expect(listFrontier(points.toReversed())).toEqual(ids)
})

const points = fc.uniqueArray(
  fc.record({
    id: fc.constantFrom(...'abcdefgh'),
    tasks: fc.integer({ min: 1, max: 4 }),
    passed: fc.nat(4),
    micros: fc.nat(4),
  }),
  { selector: ({ id }) => id },
)

/** Small numbers: both quotients are exact multiples of one twelfth. */
const cost = ({ micros, tasks }: Point): number => (micros * 12) / tasks
const accuracy = ({ passed, tasks }: Point): number => (passed * 12) / tasks
const isBetter = (a: Point, b: Point): boolean =>
  (cost(a) < cost(b) && accuracy(a) >= accuracy(b)) || (cost(a) === cost(b) && accuracy(a) > accuracy(b))

test('a setting with a pass is on the frontier unless another setting beats it', () => {
  fc.assert(
    fc.property(points, (all) => {
      const passing = all.filter(({ passed }) => passed > 0)
      const eligible = passing.length > 0 ? passing : all
      const unbeaten = eligible.filter((each) => !all.some((other) => isBetter(other, each)))
      expect(listFrontier(all).toSorted()).toEqual(unbeaten.map(({ id }) => id).toSorted())
    }),
  )
})

test('along the frontier cost and accuracy rise together, and ties are ordered by id', () => {
  fc.assert(
    fc.property(points, (all) => {
      const found = listFrontier(all).flatMap((id) => all.filter((each) => each.id === id))
      for (const [index, next] of found.slice(1).entries()) {
        const previous = found[index]
        if (!previous) throw new Error('There is a previous setting.')
        if (cost(previous) === cost(next)) {
          expect(accuracy(next)).toBe(accuracy(previous))
          expect(previous.id < next.id).toBe(true)
          continue
        }
        expect(cost(next)).toBeGreaterThan(cost(previous))
        expect(accuracy(next)).toBeGreaterThan(accuracy(previous))
      }
    }),
  )
})
