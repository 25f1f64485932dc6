import { expect, test } from 'vitest'
import { buildAnswer, requirePair } from './answer.ts'
import { computeStatistics } from './comparison-statistics.ts'
import type { SettingResults } from './pairs.ts'

/** Results by task: passes of `attempts` trials. The first trial passed if any did. Costs alternate around the mean. */
const results = (passes: readonly number[], micros: number, attempts = 1): SettingResults => ({
  trials: new Float64Array(passes.length).fill(attempts),
  passes: Float64Array.from(passes),
  passed: Float64Array.from(passes, (count) => Number(count > 0)),
  micros: Float64Array.from(passes, (_, task) => micros * (task % 2 === 0 ? 0.9 : 1.1)),
})

const solved = (count: number, tasks: number): number[] =>
  Array.from({ length: tasks }, (_, task) => Number(task < count))

type AnswerCase = { isCollecting?: boolean; references?: number[]; attempts?: number; tasks?: number | null }

function answer(
  all: SettingResults[],
  { isCollecting = false, references = [], attempts = 1, tasks = 24 }: AnswerCase = {},
) {
  const names = ['alpha', 'beta', 'gamma', 'delta']
  return buildAnswer({
    isCollecting,
    finished: 7,
    total: 48,
    plan: { tasks, attempts },
    settings: all.map((_, index) => ({
      id: `id-${names[index]}`,
      name: names[index] ?? '',
      isReference: references.includes(index),
    })),
    statistics: computeStatistics(all),
  })
}

test('the cheaper of two settings that cannot be told apart is recommended, with the difference to the other', () => {
  expect(answer([results(solved(17, 24), 420_000), results(solved(18, 24), 840_000)])).toEqual({
    state: 'conclusive',
    recommended: 'id-alpha',
    alternatives: ['id-beta'],
    text: 'Use alpha: it solved 17 of 24 tasks for $0.42 each. beta solved one more (+4 points, 95 % CI −10 to +18), which is not a measurable difference, at twice the cost.',
    smallestVisibleDifference: expect.closeTo(30.99, 1),
  })
})

test('a setting that is measurably better is recommended although it costs more', () => {
  expect(answer([results(solved(4, 24), 100_000), results(solved(22, 24), 200_000)])).toMatchObject({
    state: 'conclusive',
    recommended: 'id-beta',
    alternatives: [],
    text: 'Use beta: it solved 22 of 24 tasks for $0.20 each. alpha solved 18 fewer (−75 points, 95 % CI −91 to −47), which is measurably worse, at half the cost.',
  })
})

test('a cheaper setting that may be much worse is an alternative, and the answer is inconclusive', () => {
  const found = answer([results(solved(9, 24), 100_000), results(solved(14, 24), 200_000)])
  expect(found).toMatchObject({ state: 'inconclusive', recommended: 'id-beta', alternatives: ['id-alpha'] })
  expect(found.text).toMatch(/^Tentatively use beta: .+; 24 tasks show differences above 31 points\.$/)
})

test('equal settings at equal cost are inconclusive', () => {
  const same = results(solved(12, 24), 100_000)
  const found = answer([same, same])
  expect(found).toMatchObject({ state: 'inconclusive', recommended: 'id-alpha', alternatives: ['id-beta'] })
  expect(found.text).toContain(
    'beta solved as many (0 points, 95 % CI −11 to +11), which is not a measurable difference',
  )
})

test('with several attempts the text states points instead of a count', () => {
  const found = answer([results(solved(12, 24), 100_000, 3), results(solved(13, 24), 300_000, 3)], { attempts: 3 })
  expect(found.text).toContain('beta differs by +1 point (95 % CI')
  expect(found.text).toContain('at 3.0 times the cost')
})

test('while trials are open the answer only reports progress', () => {
  const all = [results(solved(4, 24), 100_000), results(solved(22, 24), 200_000)]
  expect(answer(all, { isCollecting: true })).toMatchObject({
    state: 'collecting',
    recommended: null,
    alternatives: [],
    text: 'Collecting results: 7 of 48 trials have finished.',
  })
})

test.each<[situation: string, all: SettingResults[], options: AnswerCase, text: RegExp]>([
  ['no scored trial', [results([], 0), results([], 0)], { tasks: null }, /^No trial was scored/],
  [
    'references only',
    [results(solved(5, 5), 0), results(solved(0, 5), 0)],
    { references: [0, 1] },
    /^Only reference settings .+: alpha solved 5 of 5 tasks; beta solved 0 of 5 tasks\.$/,
  ],
  ['four tasks', [results(solved(4, 4), 9), results(solved(0, 4), 9)], {}, /^Fewer than five tasks were scored/],
  ['one setting', [results(solved(4, 6), 10_000)], {}, /^alpha solved 4 of 6 tasks for \$0\.0100 each\. No other/],
  ['nothing solved', [results(solved(0, 9), 9), results(solved(0, 9), 9)], {}, /^No setting solved any/],
])('with %s there is no recommendation', (_, all, options, text) => {
  const found = answer(all, options)
  expect(found).toMatchObject({ state: 'inconclusive', recommended: null, alternatives: [] })
  expect(found.text).toMatch(text)
})

test('a reference is never recommended, however cheap and accurate', () => {
  const all = [results(solved(24, 24), 0), results(solved(20, 24), 100_000), results(solved(3, 24), 200_000)]
  const found = answer(all, { references: [0] })
  expect(found).toMatchObject({ state: 'conclusive', recommended: 'id-beta' })
})

test('settings of unknown cost are recommended by accuracy', () => {
  const unknown = { ...results(solved(20, 24), 0), micros: new Float64Array(24).fill(Number.NaN) }
  const found = answer([unknown, { ...unknown, ...results(solved(2, 24), 0), micros: unknown.micros }])
  expect(found).toMatchObject({ state: 'conclusive', recommended: 'id-alpha' })
  expect(found.text).toMatch(/^Use alpha: it solved 20 of 24 tasks\. /)
})

test('every pair can be read from both sides', () => {
  const statistics = computeStatistics([1, 5, 9, 12].map((count) => results(solved(count, 12), 1000)))
  for (const a of [0, 1, 2, 3])
    for (const b of [0, 1, 2, 3].filter((other) => other !== a))
      expect(requirePair(statistics, a, b)).toMatchObject({ a, b })
  expect(() => requirePair(statistics, 1, 1)).toThrow('Pair 1, 1 not found')
})
