import { expect, test } from 'vitest'
import { setting, TASKS, trial } from '../../test/support/releases/arbitrary-trials.ts'
import {
  buildResults,
  computeFrontier,
  countPassed,
  isComplete,
  listTasks,
  type SettingResult,
  sumCostMicros,
} from './aggregate.ts'

const approved = new Set(TASKS)
const results = (...all: Parameters<typeof buildResults>[1]): SettingResult[] =>
  buildResults([setting('a|x|low')], all, approved)
const own = { setting: 'a|x|low', task: 't1' }
/** A setting with a task for each cost. */
const priced = (id: string, costs: (number | null)[], over: Partial<SettingResult> = {}): SettingResult => ({
  ...(buildResults(
    [setting(id)],
    costs.map((costMicros, index) => trial({ setting: id, task: `t${index + 1}`, costMicros })),
    approved,
  )[0] as SettingResult),
  ...over,
})

test('every setting has a result, sorted by id, including one that never ran', () => {
  const found = buildResults(
    ['c', 'a', 'b'].map((id) => setting(id)),
    [trial({ setting: 'b', task: 't1' })],
    approved,
  )
  expect(found.map(({ id, reason }) => [id, reason])).toEqual([
    ['a', 'no_results'],
    ['b', undefined],
    ['c', 'no_results'],
  ])
  expect(found[0]).toMatchObject({ cohort: null, isolation: null, cells: [], errored: 0, voided: 0 })
  expect(found[1]).toMatchObject({ cohort: { harnessVersion: '1' }, isolation: 'none', cells: [{ task: 't1' }] })
})

test('a setting with only errored trials counts each of them once', () => {
  const errored = (id: string, comparison = 1) => trial({ ...own, state: 'errored', trial: id, comparison })
  expect(results(errored('x'), errored('y'), errored('x', 2))[0]).toMatchObject({ errored: 2, reason: 'no_results' })
  const voided = trial({ ...own, trial: 'z', isVoided: true })
  expect(results(errored('x'), voided, { ...voided, comparison: 2 }, { ...voided, trial: 'w' })[0]).toMatchObject({
    errored: 1,
    voided: 2,
    reason: 'no_results',
  })
})

test('a result whose costs are partly unknown cannot be published', () => {
  const two = (costMicros: number | null) => trial({ ...own, task: 't2', costMicros })
  expect(results(trial(own), two(null))[0]?.reason).toBe('cost_unknown')
  expect(results(trial(own), two(0))[0]?.reason).toBeUndefined()
})

test('the cost of a result is the sum over tasks, and null without tasks or with an unknown cost', () => {
  expect(sumCostMicros(priced('a', [1, 2, 0]))).toBe(3)
  expect(sumCostMicros(priced('a', [1, null]))).toBeNull()
  expect(sumCostMicros(priced('a', []))).toBeNull()
})

test('passed tasks are counted by their first trial', () => {
  const found = results(trial(own), trial({ ...own, task: 't2', state: 'failed' }), trial({ ...own, task: 't3' }))
  expect(found.map(countPassed)).toEqual([2])
})

test('the tasks of a selection are those that any of its settings has, sorted', () => {
  const [one, other] = [priced('a', [1]), priced('b', [1, 1])]
  const late = { ...other, cells: other.cells.toReversed() }
  expect(listTasks([late, one])).toEqual(['t1', 't2'])
  expect(listTasks([one])).toEqual(['t1'])
  expect(listTasks([])).toEqual([])
})

test('a result is complete if it has every task, and never without tasks', () => {
  const one = priced('a', [1])
  expect(isComplete(one, ['t1'])).toBe(true)
  expect(isComplete(one, ['t1', 't2'])).toBe(false)
  expect(isComplete(one, [])).toBe(false)
})

test('the frontier contains only complete and publishable settings', () => {
  const all = [
    priced('dear', [5, 5]),
    priced('cheap', [1]),
    priced('unknown', [1, null]),
    priced('reference', [0, 0], { reason: 'reference' }),
  ]
  expect(computeFrontier(all)).toEqual(['dear'])
  expect(computeFrontier([priced('a', [1, null], { reason: undefined }), priced('b', [2, 2])])).toEqual(['b'])
  expect(computeFrontier([priced('b', [2, 3]), priced('a', [3, 2]), priced('c', [3, 3])])).toEqual(['a', 'b'])
  expect(computeFrontier([])).toEqual([])
})

test('a more accurate setting on the frontier may cost more', () => {
  const failing = (id: string, cost: number): SettingResult => {
    const one = priced(id, [cost, cost])
    return { ...one, cells: one.cells.map((cell, index) => ({ ...cell, passed: index === 0 })) }
  }
  expect(computeFrontier([failing('cheap', 1), priced('good', [2, 2]), failing('bad', 3)])).toEqual(['cheap', 'good'])
})
