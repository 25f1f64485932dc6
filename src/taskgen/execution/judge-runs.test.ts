import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { SuiteRun, TestStatus } from '../../grading/suite.ts'
import { judgeRuns, listExecutionConcerns, listSuspects, rejectClockBombs, type SuiteRuns } from './judge-runs.ts'

const NAMES: Record<string, TestStatus> = { p: 'passed', f: 'failed', e: 'errored', s: 'skipped' }

/** `{ a: 'pfe' }`: what became of `a` in the first run, the second and the third; `-` is not there. */
function runsOf(table: Record<string, string>, message = 'AssertionError: 1 != 2'): SuiteRun[] {
  const count = Math.max(...Object.values(table).map((letters) => letters.length))
  return Array.from({ length: count }, (_, at) => {
    const statuses = new Map<string, TestStatus>()
    for (const [id, letters] of Object.entries(table)) {
      const status = NAMES[letters[at] ?? '-']
      if (status) statuses.set(id, status)
    }
    const failing = [...statuses].filter(([, status]) => status !== 'passed').map(([id]) => [id, message] as const)
    return { statuses: Object.fromEntries(statuses), messages: Object.fromEntries(failing), exitCode: 0, seconds: 1 }
  })
}

/** By test: base, three with the tests, three with the fix, and suspects alone. */
type TestRow = [base: string, tests: string, fixed: string, alone?: string]

function runs(table: Record<string, TestRow>, message?: string): SuiteRuns {
  const column = (at: 0 | 1 | 2 | 3) =>
    runsOf(Object.fromEntries(Object.entries(table).map(([id, cells]) => [id, cells[at] ?? ''])), message)
  return { base: column(0), tests: column(1), fixed: column(2), alone: column(3) }
}

const many = (count: number, cells: TestRow) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`many ${n}`, cells]))

const GOOD: Record<string, TestRow> = {
  turned: ['-', 'fff', 'ppp'],
  changed: ['p', 'fee', 'ppp'],
  kept: ['p', 'ppp', 'ppp'],
  added: ['-', 'ppp', 'ppp'],
  'never right': ['f', 'fff', 'fff'],
  'left out': ['s', 'sss', 'sss'],
  'taken away': ['p', '---', '---'],
}

test('computes fail-to-pass and pass-to-pass tests', () => {
  expect(judgeRuns(runs(GOOD))).toEqual({
    kind: 'judged',
    lists: { failToPass: ['changed', 'turned'], passToPass: ['added', 'kept'], guards: [] },
    unstable: [],
    messages: { turned: 'AssertionError: 1 != 2', changed: 'AssertionError: 1 != 2' },
    failsByAssertion: true,
    buildErrors: [],
    newTests: ['turned'],
  })
})

test.each<[string, Record<string, TestRow>, { failToPass: string[]; passToPass: string[]; guards: string[] }]>([
  [
    'a package that does not compile without the fix',
    { two: ['-', '---', 'ppp'], one: ['ppp', '---', 'ppp'], other: ['ppp', 'ppp', 'ppp'], gone: ['ppp', '---', '---'] },
    { failToPass: ['two'], passToPass: ['other'], guards: ['one'] },
  ],
  [
    'a module that does not compile, and nothing else',
    { two: ['-', '---', 'ppp'], one: ['ppp', '---', 'ppp'] },
    { failToPass: ['two'], passToPass: [], guards: ['one'] },
  ],
  [
    'more than 200 tests that only lost their build',
    { two: ['-', '---', 'ppp'], ...many(252, ['ppp', '---', 'ppp']) },
    { failToPass: ['two'], passToPass: [], guards: Object.keys(many(252, ['', '', ''])).toSorted() },
  ],
  [
    'tests that fail only after other tests',
    { two: ['-', 'fff', 'ppp'], later: ['ppp', 'fff', 'ppp', 'p'], kept: ['ppp', 'ppp', 'ppp'] },
    { failToPass: ['two'], passToPass: ['kept'], guards: ['later'] },
  ],
  [
    'a changed test that fails alone too',
    { changed: ['ppp', 'fff', 'ppp', 'f'], kept: ['ppp', 'ppp', 'ppp'] },
    { failToPass: ['changed'], passToPass: ['kept'], guards: [] },
  ],
  [
    'a test that failed on the base by itself',
    { wrong: ['fff', '---', 'ppp'], kept: ['ppp', '---', 'ppp'] },
    { failToPass: ['wrong'], passToPass: [], guards: ['kept'] },
  ],
])('guards: %s', (_, table, lists) => {
  expect(judgeRuns(runs(table))).toMatchObject({ kind: 'judged', lists })
})

test.each<[string, Record<string, TestRow>, string]>([
  ['tests that only lost their build prove nothing', { one: ['ppp', '---', 'ppp'] }, 'no_f2p'],
  ['the fix breaks a guard', { two: ['-', '---', 'ppp'], one: ['ppp', '---', 'fff'] }, 'p2f'],
  [
    'a test that is flaky on the base is neither guard nor fail-to-pass',
    { two: ['-', '---', 'ppp'], one: ['pfp', '---', 'ppp'] },
    'suite_unhealthy',
  ],
])('guards: %s', (_, table, reason) => {
  expect(judgeRuns(runs(table))).toMatchObject({ kind: 'rejected', reason })
})

test('suspects are tests of the base that fail with the tests that landed, until they pass alone', () => {
  const table: Record<string, TestRow> = {
    two: ['-', 'fff', 'ppp'],
    later: ['p', 'fff', 'ppp'],
    missing: ['p', '---', 'ppp'],
    cleared: ['p', 'fff', 'ppp', 'p'],
    kept: ['p', 'ppp', 'ppp'],
  }
  expect(listSuspects(runs(table))).toEqual(['later'])
})

test.each<[string, Record<string, TestRow>, string]>([
  ['nothing turns', { kept: ['p', 'ppp', 'ppp'], wrong: ['f', 'fff', 'fff'] }, 'no_f2p'],
  ['skipped after the fix is not passed', { kept: ['p', 'ppp', 'ppp'], x: ['-', 'fff', 'sss'] }, 'no_f2p'],
  ['nothing stays', { turned: ['-', 'fff', 'ppp'] }, 'no_p2p'],
  [
    'what was wrong at the base and then passes is no proof',
    { turned: ['-', 'fff', 'ppp'], luck: ['f', 'ppp', 'ppp'] },
    'no_p2p',
  ],
  ['the fix breaks a test', { ...GOOD, broken: ['p', 'ppp', 'fff'] }, 'p2f'],
  ['the fix takes a test away', { ...GOOD, gone: ['p', 'ppp', '---'] }, 'p2f'],
  ['it turns two times of three', { ...GOOD, x: ['-', 'fff', 'ppf'] }, 'flaky_f2p'],
  ['it passes once without the fix', { ...GOOD, x: ['-', 'ffp', 'ppp'] }, 'flaky_f2p'],
  ['more than 2 % waver', { ...GOOD, ...many(40, ['p', 'ppp', 'ppp']), x: ['p', 'ppp', 'ppf'] }, 'suite_unhealthy'],
  ['it turns too many', { kept: ['p', 'ppp', 'ppp'], ...many(201, ['-', 'fff', 'ppp']) }, 'too_broad'],
])('%s', (_, table, reason) => {
  expect(judgeRuns(runs(table))).toMatchObject({ kind: 'rejected', reason })
})

test('omits and reports a few flaky tests', () => {
  const judged = judgeRuns(runs({ ...GOOD, ...many(60, ['p', 'ppp', 'ppp']), x: ['p', 'ppp', 'pfp'] }))
  expect(judged).toMatchObject({ kind: 'judged', unstable: ['x'] })
  expect(JSON.stringify(judged)).not.toContain('"passToPass":["x"')
})

test.each([
  ["ImportError: cannot import name 'f' from 'kit'", false],
  ['TypeError: kit.f is not a function', false],
  ["AttributeError: module 'kit' has no attribute 'f'", false],
  ['./a_test.go:3:2: undefined: Rank\nFAIL kit [build failed]', false],
  ['expected 1 to equal 2', true],
  ['ValueError: no such rank', true],
])('recognises an assertion failure: %s is %s', (message, isAssertion) => {
  expect(judgeRuns(runs(GOOD, message))).toMatchObject({ failsByAssertion: isAssertion })
  const missing = runs({ kept: ['p', 'ppp', 'ppp'], turned: ['-', '---', 'ppp'] }, message)
  expect(judgeRuns(missing)).toMatchObject({ failsByAssertion: false })
})

const LISTS = { failToPass: ['turned'], passToPass: ['kept'], guards: [] }

test.each<[string, Record<string, string>, Record<string, string>, string | undefined]>([
  ['passes on every day', { turned: 'p', kept: 'p' }, { turned: 'p', kept: 'p' }, undefined],
  [
    'fails on a later day',
    { turned: 'p', kept: 'p' },
    { turned: 'ff', kept: 'pp' },
    'These tests fail on a later day: turned.',
  ],
  [
    'is not there on a later day',
    { turned: 'p', kept: 'p' },
    { turned: 'pp', kept: '--' },
    'These tests fail on a later day: kept.',
  ],
  ['fails on one of two later days', { turned: 'p', kept: 'p' }, { turned: 'fp', kept: 'pf' }, undefined],
  ['fails by any clock that is not the real one', { turned: 'f', kept: '-' }, { turned: 'ff', kept: 'ee' }, undefined],
  ['fails on a later day, and counts for nothing', { other: 'p' }, { turned: 'p', kept: 'p', other: 'f' }, undefined],
])('%s', (_, tomorrow, later, detail) => {
  const bomb = rejectClockBombs(LISTS, { tomorrow: runsOf(tomorrow), later: runsOf(later) })
  expect(bomb).toEqual(detail === undefined ? undefined : { kind: 'rejected', reason: 'clock_bomb', detail })
})

const Status = fc.constantFrom<TestStatus | undefined>(
  'passed',
  'passed',
  'passed',
  'failed',
  'errored',
  'skipped',
  undefined,
)
const Id = fc.constantFrom('a', 'b', 'c', 'd', '__proto__', 'constructor', 'toString')
const Run = fc.dictionary(Id, Status, { maxKeys: 7 }).map(
  (statuses): SuiteRun => ({
    statuses: Object.fromEntries(Object.entries(statuses).flatMap(([id, status]) => (status ? [[id, status]] : []))),
    messages: {},
    exitCode: 0,
    seconds: 1,
  }),
)
const AnyRuns = fc.record({
  base: fc.array(Run, { minLength: 1, maxLength: 3 }),
  alone: fc.array(Run, { maxLength: 2 }),
  tests: fc.array(Run, { minLength: 1, maxLength: 3 }),
  fixed: fc.array(Run, { minLength: 1, maxLength: 3 }),
})

const passes = (run: SuiteRun, id: string): boolean => Object.hasOwn(run.statuses, id) && run.statuses[id] === 'passed'

test('for any runs, the lists hold for every run', () => {
  fc.assert(
    fc.property(AnyRuns, (all) => {
      const judged = judgeRuns(all)
      if (judged.kind !== 'judged') return
      const { failToPass, passToPass, guards } = judged.lists
      expect(failToPass.length).toBeGreaterThan(0)
      expect(passToPass.length + guards.length).toBeGreaterThan(0)
      for (const id of guards) {
        expect(all.tests.some((run) => passes(run, id))).toBe(false)
        expect([...all.base, ...all.fixed].every((run) => passes(run, id))).toBe(true)
      }
      for (const id of failToPass) {
        expect(all.tests.some((run) => passes(run, id))).toBe(false)
        expect(all.fixed.every((run) => passes(run, id))).toBe(true)
      }
      for (const id of passToPass) expect([...all.tests, ...all.fixed].every((run) => passes(run, id))).toBe(true)
      const listed = [...failToPass, ...passToPass, ...guards, ...judged.unstable]
      expect(new Set(listed).size).toBe(listed.length)
      expect([failToPass, passToPass]).toEqual([failToPass.toSorted(), passToPass.toSorted()])
    }),
    { numRuns: 2000 },
  )
})

test('for any runs, their order does not matter', () => {
  fc.assert(
    fc.property(AnyRuns, (all) => {
      const turned = { ...all, tests: all.tests.toReversed(), fixed: all.fixed.toReversed() }
      const [one, two] = [judgeRuns(all), judgeRuns(turned)]
      expect(two.kind).toBe(one.kind)
      if (one.kind === 'judged') expect(two).toMatchObject({ lists: one.lists, unstable: one.unstable })
      else expect(two).toMatchObject({ reason: one.reason })
    }),
    { numRuns: 1000 },
  )
})

test('for any runs, one more run only removes tests from the lists', () => {
  fc.assert(
    fc.property(AnyRuns, Run, (all, more) => {
      const [before, after] = [judgeRuns(all), judgeRuns({ ...all, fixed: [...all.fixed, more] })]
      if (after.kind !== 'judged') return
      // Fewer runs may have looked like a breach; but they cannot have turned less.
      if (before.kind !== 'judged') return
      expect(before.lists.failToPass).toEqual(expect.arrayContaining(after.lists.failToPass))
      expect(before.lists.passToPass).toEqual(expect.arrayContaining(after.lists.passToPass))
    }),
    { numRuns: 1000 },
  )
})

test('accepts few pass-to-pass tests with a warning', () => {
  const listed = (count: number) => ({
    failToPass: ['a'],
    guards: [],
    passToPass: Array.from({ length: count }, (_, at) => `t${at}`),
  })
  expect([5, 40].flatMap((count) => listExecutionConcerns(listed(count)))).toEqual([])
  expect(listExecutionConcerns(listed(4))).toEqual([expect.stringContaining('works today: 4.')])
})

test('names of tests that are too long to be stored reject the candidate', () => {
  const long = Object.fromEntries(
    Array.from({ length: 12_000 }, (_, n): [string, TestRow] => [`${n}${'x'.repeat(390)}`, ['p', 'ppp', 'ppp']]),
  )
  expect(judgeRuns(runs({ ...GOOD, ...long }))).toMatchObject({ kind: 'rejected', reason: 'too_large' })
})
