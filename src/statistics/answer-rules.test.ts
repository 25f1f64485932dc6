import { expect, test } from 'vitest'
import { buildAnswer, requirePair } from './answer.ts'
import type { ComparisonStatistics, SettingStatistics } from './comparison-statistics.ts'
import { computeSmallestDifference } from './intervals.ts'
import type { MeasuredDifference } from './paired.ts'
import type { PairStatistics, Verdict } from './pairs.ts'
import { quantile } from './student.ts'

// The rule of the recommendation on statistics that are given, so that every condition decides a case by itself.

const TASKS = 20
const VISIBLE = computeSmallestDifference(TASKS, 1) / 100

type GivenSetting = { id: string; mean: number; micros?: number | undefined; tasks?: number; trials?: number }
type GivenPair = {
  verdict?: Verdict
  centre?: number
  error?: number
  cheaper?: boolean | undefined
  isMeasured?: boolean
}

const toStatistics = ({ mean, micros, tasks = TASKS, trials = tasks }: GivenSetting): SettingStatistics => ({
  tasks,
  trials,
  passed: Math.round(mean * tasks),
  mean,
  meanMicros: micros,
  cost: undefined,
  rank: undefined,
  frontierProbability: undefined,
})

const DEGREES = 19

function toDifference({ centre = 0, error = 0 }: GivenPair): MeasuredDifference {
  const none = { mean: centre, low: centre, high: centre, wins: 0, losses: 0 }
  return { ...none, centre, error, degrees: DEGREES, probability: 1 } as MeasuredDifference
}

const toPair = (a: number, b: number, given: GivenPair): PairStatistics => ({
  ...{ a, b, tasks: TASKS, wonByA: 0, wonByB: 0, both: 0, neither: 0, isSingle: false },
  difference: given.isMeasured === false ? undefined : toDifference(given),
  cost: given.cheaper === undefined ? undefined : { mean: 0, low: -2, high: given.cheaper ? -1 : 1 },
  verdict: given.verdict ?? 'cannot_tell',
})

/** `pairs` has the key `a-b` with ids in the order of the settings; the others cannot be told apart. */
function build(given: readonly GivenSetting[], pairs: Record<string, GivenPair> = {}): ComparisonStatistics {
  const all = given.flatMap(({ id }, a) =>
    given.slice(a + 1).map((other, offset) => toPair(a, a + 1 + offset, pairs[`${id}-${other.id}`] ?? {})),
  )
  return { settings: given.map(toStatistics), pairs: all }
}

const PLAN = { tasks: 100 as number | null, attempts: 4 }

const answer = (given: readonly GivenSetting[], pairs: Record<string, GivenPair> = {}, plan = PLAN) =>
  buildAnswer({
    isCollecting: false,
    finished: 1,
    total: 1,
    plan,
    settings: given.map(({ id }) => ({ id, name: id.toUpperCase(), isReference: false })),
    statistics: build(given, pairs),
  })

const points = (tasks: number, attempts: number): number =>
  Math.round(10 * computeSmallestDifference(tasks, attempts)) / 10

test('five scored tasks are enough to compare, four are not', () => {
  const two = (tasks: number) =>
    answer([
      { id: 'a', mean: 1, tasks },
      { id: 'b', mean: 0.5, tasks },
    ]).recommended
  expect(two(5)).toBe('a')
  expect(two(4)).toBeNull()
})

test('the visible difference is that of the plan until two settings have results', () => {
  expect(answer([{ id: 'a', mean: 1 }]).smallestVisibleDifference).toBe(points(100, 4))
  expect(answer([{ id: 'a', mean: 1 }], {}, { tasks: null, attempts: 4 }).smallestVisibleDifference).toBeNull()
})

test('the visible difference is that of the fewest tasks and the fewest attempts', () => {
  const given = [
    { id: 'a', mean: 1, tasks: 20, trials: 60 },
    { id: 'b', mean: 1, tasks: 30, trials: 30 },
  ]
  expect(answer(given).smallestVisibleDifference).toBe(points(20, 1))
})

test('a setting without statistics is an error of the caller', () => {
  const statistics = build([{ id: 'a', mean: 1 }])
  const settings = ['a', 'b'].map((id) => ({ id, name: id, isReference: false }))
  expect(() => buildAnswer({ isCollecting: false, finished: 0, total: 0, plan: PLAN, settings, statistics })).toThrow(
    'Setting b has no statistics',
  )
})

test('alternatives are sorted by accuracy, then by cost, then by id', () => {
  const given = [
    { id: 'z', mean: 0.5, micros: 30 },
    { id: 'y', mean: 0.5, micros: 20 },
    { id: 'x', mean: 0.5, micros: 30 },
    { id: 'w', mean: 0.7, micros: 90 },
    { id: 'v', mean: 0.5 },
    { id: 'u', mean: 0.4, micros: 10 },
  ]
  expect(answer(given)).toMatchObject({ recommended: 'u', alternatives: ['w', 'y', 'x', 'z', 'v'] })
})

test('the most accurate setting is recommended if every cheaper one may be worse by more than is visible', () => {
  const given = [
    { id: 'a', mean: 0.8, micros: 90 },
    { id: 'b', mean: 0.7, micros: 10 },
  ]
  const choose = (pair: GivenPair) => answer(given, { 'a-b': pair }).recommended
  expect(choose({ centre: VISIBLE })).toBe('b')
  expect(choose({ centre: VISIBLE * 1.001 })).toBe('a')
  expect(choose({ centre: 0, error: (0.999 * VISIBLE) / quantile(0.1, DEGREES) })).toBe('b')
  expect(choose({ centre: 0, error: (1.001 * VISIBLE) / quantile(0.1, DEGREES) })).toBe('a')
})

test('the confidence is divided by the number of other candidates', () => {
  const given = [
    { id: 'a', mean: 0.8, micros: 90 },
    { id: 'b', mean: 0.7, micros: 10 },
    { id: 'c', mean: 0.1, micros: 99 },
  ]
  const choose = (share: number) =>
    answer(given, { 'a-b': { error: (share * VISIBLE) / quantile(0.05, DEGREES) } }).recommended
  expect(choose(0.999)).toBe('b')
  expect(choose(1.001)).toBe('a')
})

test('a setting that was shown to be worse is not recommended, however small the difference', () => {
  const given = [
    { id: 'a', mean: 0.8, micros: 90 },
    { id: 'b', mean: 0.7, micros: 10 },
  ]
  expect(answer(given, { 'a-b': { verdict: 'better', centre: 0.001 } })).toMatchObject({
    recommended: 'a',
    alternatives: [],
    state: 'conclusive',
  })
})

test('a setting that could not be compared is not recommended over the most accurate one', () => {
  const given = [
    { id: 'a', mean: 0.8, micros: 90 },
    { id: 'b', mean: 0.7, micros: 10 },
  ]
  expect(answer(given, { 'a-b': { isMeasured: false } })).toMatchObject({ recommended: 'a', state: 'inconclusive' })
})

test('the answer is conclusive only if the choice is better, or as good and cheaper, than every other setting', () => {
  const given = [
    { id: 'a', mean: 0.9, micros: 10 },
    { id: 'b', mean: 0.8, micros: 20 },
    { id: 'c', mean: 0.7, micros: 30 },
  ]
  const state = (ab: GivenPair, ac: GivenPair) => answer(given, { 'a-b': ab, 'a-c': ac }).state
  expect(state({ verdict: 'better' }, { cheaper: true })).toBe('conclusive')
  expect(state({ verdict: 'better' }, { cheaper: false })).toBe('inconclusive')
  expect(state({ cheaper: true }, {})).toBe('inconclusive')
  expect(state({ cheaper: true }, { cheaper: true, centre: -2 * VISIBLE })).toBe('inconclusive')
})

test('the text compares a cheaper choice with the most accurate setting', () => {
  const given = [
    { id: 'a', mean: 0.9, micros: 90 },
    { id: 'b', mean: 0.8, micros: 10 },
    { id: 'c', mean: 0.7, micros: 20 },
  ]
  expect(answer(given).text).toMatch(/^Tentatively use B: .*\. A differs by /)
})

test('the text compares the most accurate choice with the cheapest setting that was not shown to be worse', () => {
  const given = [
    { id: 'a', mean: 0.9, micros: 10 },
    { id: 'b', mean: 0.8, micros: 40 },
    { id: 'c', mean: 0.7, micros: 20 },
    { id: 'd', mean: 0.6, micros: 30 },
    { id: 'e', mean: 0.5, micros: 15 },
  ]
  const worse: GivenPair = { verdict: 'better' }
  expect(answer(given, { 'a-e': worse }).text).toMatch(/^Tentatively use A: .*\. C differs by /)
  const all = { 'a-b': worse, 'a-c': worse, 'a-d': worse, 'a-e': worse }
  expect(answer(given, all).text).toMatch(/^Use A: .*\. B differs by /)
})

test('a pair in the wrong place is an error of the caller', () => {
  const { settings, pairs } = build(['a', 'b', 'c'].map((id) => ({ id, mean: 1 })))
  const [ab, ac, bc] = pairs
  if (!ab || !ac || !bc) throw new Error('Three settings have three pairs.')
  for (const wrong of [[], [ac, ac, bc], [bc, ac, bc], [{ ...ab, a: 2 }, ac, bc]])
    expect(() => requirePair({ settings, pairs: wrong }, 0, 1)).toThrow('Pair 0, 1 not found')
  expect(requirePair({ settings, pairs }, 0, 1)).toBe(ab)
})
