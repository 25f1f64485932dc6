import { expect, test } from 'vitest'
import { TASKS, trial } from '../../test/support/releases/arbitrary-trials.ts'
import type { TrialOutcome } from '../comparisons/outcome.ts'
import { dedupeTrials, sameOrMixed, selectCohort } from './cohort.ts'

const approved = new Set(TASKS)
const own = { setting: 'a|x|low', task: 't1' }
const choose = (...all: TrialOutcome[]) => selectCohort(all, approved)

test.each<[guarantee: string, first: Partial<TrialOutcome>, other: Partial<TrialOutcome>]>([
  [
    'asked for earlier',
    { comparedAt: 1, attempt: 2, comparison: 2, trial: 'z' },
    { comparedAt: 2, attempt: 1, comparison: 1, trial: 'a' },
  ],
  [
    'a lower attempt',
    { comparedAt: 1, attempt: 1, comparison: 2, trial: 'z' },
    { comparedAt: 1, attempt: 2, comparison: 1, trial: 'a' },
  ],
  [
    'an older comparison',
    { comparedAt: 1, attempt: 1, comparison: 1, trial: 'z' },
    { comparedAt: 1, attempt: 1, comparison: 2, trial: 'a' },
  ],
  [
    'a smaller id',
    { comparedAt: 1, attempt: 1, comparison: 1, trial: 'a' },
    { comparedAt: 1, attempt: 1, comparison: 1, trial: 'b' },
  ],
])('the canonical trial of a task is the one with %s', (_, first, other) => {
  const [standing, later] = [trial({ ...own, ...first, costMicros: 1 }), trial({ ...own, ...other, costMicros: 2 })]
  for (const all of [
    [standing, later],
    [later, standing],
  ])
    expect(choose(...all)?.cells).toMatchObject([{ costMicros: 1, trial: first.trial, trials: 2, passes: 2 }])
})

test('only the oldest use of a reused trial counts, in any input order', () => {
  const uses = [3, 1, 2].map((comparison) => trial({ ...own, trial: 'same', comparison, comparedAt: comparison }))
  for (const all of [uses, uses.toReversed(), [uses[1], uses[2], uses[0]]]) {
    const known = all.flatMap((use) => use ?? [])
    expect(dedupeTrials(known).map(({ comparison }) => comparison)).toEqual([1])
  }
})

test('voiding one use excludes every use of the trial and nothing else', () => {
  const all = [
    trial({ ...own, trial: 'x' }),
    trial({ ...own, trial: 'y' }),
    trial({ ...own, trial: 'x', comparison: 2, isVoided: true }),
  ]
  expect(dedupeTrials(all).map((each) => each.trial)).toEqual(['y'])
  expect(dedupeTrials(all.slice(0, 2)).map((each) => each.trial)).toEqual(['x', 'y'])
})

test('a cohort has the conditions of its trials and one cell per task, sorted by id', () => {
  const conditions = { harnessVersion: '7', sandbox: 'docker', verifyMode: 'snapshot' }
  const all = ['t3', 't1', 't2'].map((task, index) =>
    trial({ ...own, ...conditions, task, usage: null, costSource: 'harness', comparedAt: index }),
  )
  const found = choose(...all)
  expect(found?.cohort).toEqual(conditions)
  expect(found?.cells.map(({ task }) => task)).toEqual(['t1', 't2', 't3'])
  expect(found?.cells[0]).toEqual({
    task: 't1',
    passed: true,
    costMicros: 1000,
    costSource: 'harness',
    usage: null,
    resources: null,
    agentSeconds: null,
    trial: '1 a|x|low t1 1',
    trials: 1,
    passes: 1,
  })
})

test('of two cohorts with equally many tasks the newer is selected; ties are deterministic', () => {
  const at = (sandbox: string, comparedAt: number, tasks = ['t1']) =>
    tasks.map((task) => trial({ ...own, task, sandbox, comparedAt, trial: `${sandbox} ${task}` }))
  const sandboxOf = (...all: TrialOutcome[]) => choose(...all)?.cohort.sandbox
  expect(sandboxOf(...at('a', 1), ...at('b', 2))).toBe('b')
  expect(sandboxOf(...at('b', 2), ...at('a', 1))).toBe('b')
  expect(sandboxOf(...at('a', 1, ['t1', 't2']), ...at('b', 2))).toBe('a')
  expect(sandboxOf(...at('a', 1), ...at('b', 1))).toBe('a')
  expect(sandboxOf(...at('b', 1), ...at('a', 1))).toBe('a')
  expect(sandboxOf(...at('b', 1), ...at('c', 1), ...at('a', 1))).toBe('a')
  const late = at('a', 1, ['t1', 't2']).map((each, index) => ({ ...each, comparedAt: index === 0 ? 9 : 1 }))
  expect(sandboxOf(...late, ...at('b', 5, ['t1', 't2']))).toBe('a')
})

test('a cohort counts errored trials of its harness version and sandbox in any verify mode', () => {
  const errored = (over: Partial<TrialOutcome>, id: string) => trial({ ...own, state: 'errored', trial: id, ...over })
  const found = choose(
    trial(own),
    errored({}, 'same'),
    errored({ verifyMode: null }, 'before its verifier'),
    errored({ harnessVersion: '2' }, 'other version'),
    errored({ sandbox: 'docker' }, 'other sandbox'),
    errored({ task: 'not approved' }, 'other task'),
  )
  expect(found?.errored).toBe(2)
})

test('the isolation is the one that all trials share, or mixed', () => {
  const isolated = (...all: (string | null)[]) =>
    choose(...all.map((isolation, index) => trial({ ...own, isolation, attempt: index + 1 })))?.isolation
  expect(isolated('full', 'full')).toBe('full')
  expect(isolated('full', 'none')).toBe('mixed')
})

test.each<[words: (string | null)[], word: string | null]>([
  [[], null],
  [[null], null],
  [['a'], 'a'],
  [['a', null, 'a'], 'a'],
  [[null, 'a'], 'a'],
  [['a', 'b'], 'mixed'],
  [['a', 'b', null], 'mixed'],
])('%j is %j', (words, word) => {
  expect(sameOrMixed(words)).toBe(word)
})

test('there is no cohort without a scored trial of an approved task', () => {
  expect(choose()).toBeUndefined()
  expect(choose(trial({ ...own, state: 'errored' }))).toBeUndefined()
  expect(choose(trial({ ...own, task: 'not approved' }))).toBeUndefined()
})
