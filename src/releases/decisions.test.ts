import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SETTINGS, setting, TASKS, trial, trials } from '../../test/support/releases/arbitrary-trials.ts'
import type { TrialOutcome } from '../comparisons/outcome.ts'
import {
  buildResults,
  computeFrontier,
  countPassed,
  isComplete,
  listTasks,
  type SettingResult,
  sumCostMicros,
} from './aggregate.ts'
import { selectCohort } from './cohort.ts'
import { type CanonicalJson, canonicalJson, computeContentHash, computeFingerprint } from './fingerprint.ts'

const approved = new Set(TASKS)
const facts = SETTINGS.map((id) => setting(id))
const publishable = (results: SettingResult[]) => results.filter(({ reason }) => reason === undefined)

test('results are independent of the order of trials and settings', () => {
  fc.assert(
    fc.property(trials, fc.infiniteStream(fc.nat()), (all, numbers) => {
      const shuffled = shuffle(all, numbers)
      const before = buildResults(facts, all, approved)
      const after = buildResults(shuffle(facts, numbers), shuffled, new Set(shuffle(TASKS, numbers)))
      expect(after).toEqual(before)
      expect(computeFingerprint(shuffle(after, numbers), shuffle(TASKS, numbers))).toBe(
        computeFingerprint(before, TASKS),
      )
      expect(computeFrontier(shuffle(publishable(after), numbers))).toEqual(computeFrontier(publishable(before)))
      expect(computeContentHash(shuffle(after, numbers))).toBe(computeContentHash(before))
    }),
  )
})

function shuffle<T>(list: readonly T[], numbers: Iterable<number>): T[] {
  const keys = Iterator.from(numbers).take(list.length).toArray()
  return list
    .map((value, place) => ({ value, key: keys[place] ?? 0 }))
    .sort((a, b) => a.key - b.key)
    .map(({ value }) => value)
}

test('the first trial is canonical, not the best and not the first to finish', () => {
  const own = { setting: 'a|x|low', task: 't1' }
  const found = selectCohort(
    [
      trial({ ...own, comparison: 2, comparedAt: 2000, attempt: 1, state: 'passed' }),
      trial({ ...own, comparison: 1, comparedAt: 1000, attempt: 2, state: 'passed' }),
      trial({ ...own, comparison: 1, comparedAt: 1000, attempt: 1, state: 'failed', costMicros: 7 }),
    ],
    approved,
  )
  expect(found?.cells).toMatchObject([{ task: 't1', passed: false, costMicros: 7, trials: 3, passes: 2 }])
})

test('an errored or voided first trial is replaced by the next', () => {
  const own = { setting: 'a|x|low', task: 't1' }
  const errored = trial({ ...own, attempt: 1, state: 'errored', verifyMode: null })
  const voided = trial({ ...own, attempt: 2, state: 'failed', isVoided: true })
  const found = selectCohort([errored, voided, trial({ ...own, attempt: 3 })], approved)
  expect(found).toMatchObject({ errored: 1, cells: [{ passed: true, trials: 1 }] })
  expect(selectCohort([errored, voided], approved)).toBeUndefined()
})

test('a reused trial counts once, and voiding one use voids it', () => {
  const own = { setting: 'a|x|low', task: 't1', trial: 'the one' }
  const copy = trial({ ...own, comparison: 2, comparedAt: 2000 })
  expect(selectCohort([trial(own), copy], approved)?.cells).toMatchObject([{ trials: 1 }])
  expect(selectCohort([trial({ ...own, isVoided: true }), copy], approved)).toBeUndefined()
  const [result] = buildResults([setting('a|x|low')], [trial({ ...own, isVoided: true }), copy], approved)
  expect(result).toMatchObject({ voided: 1, reason: 'no_results' })
})

test('only one cohort counts: the one with most approved tasks, among ties the newest', () => {
  const at = (task: string, version: string, comparison: number) =>
    trial({ setting: 'a|x|low', task, harnessVersion: version, comparison, comparedAt: 1000 * comparison })
  const versionOf = (all: TrialOutcome[], tasks = approved) => selectCohort(all, tasks)?.cohort.harnessVersion
  const older = [at('t1', '1', 1), at('t2', '1', 1)]
  expect(versionOf([...older, at('t1', '2', 2)])).toBe('1')
  expect(versionOf([...older, at('t1', '2', 2), at('t2', '2', 2)])).toBe('2')
  expect(versionOf([...older, at('t1', '2', 2)], new Set(['t1']))).toBe('2')
  expect(selectCohort([...older, at('t3', '2', 2)], approved)?.cells.map(({ task }) => task)).toEqual(['t1', 't2'])
  const modes = [trial({ setting: 'a|x|low', task: 't1', verifyMode: 'snapshot' }), ...older.slice(1)]
  expect(selectCohort([...modes, at('t3', '1', 1)], approved)?.cohort.verifyMode).toBe('workspace')
})

test('a declined task is not part of the results', () => {
  const all = ['t1', 't2'].map((task) => trial({ setting: 'a|x|low', task }))
  const [before] = buildResults([setting('a|x|low')], all, approved)
  const [after] = buildResults([setting('a|x|low')], all, new Set(['t1']))
  expect([before?.cells.length, after?.cells.length]).toEqual([2, 1])
})

test('a publishable setting has results and a known cost for each', () => {
  const all = [
    trial({ setting: 'a|x|low', task: 't1' }),
    trial({ setting: 'b|x|low', task: 't1', costMicros: null }),
    trial({ setting: 'b|y|high', task: 't1', state: 'errored' }),
    trial({ setting: 'r|x|none', task: 't1' }),
  ]
  const settings = [...facts.slice(0, 3), setting('r|x|none', { isReference: true })]
  expect(buildResults(settings, all, approved).map(({ id, reason }) => [id, reason])).toEqual([
    ['a|x|low', undefined],
    ['b|x|low', 'cost_unknown'],
    ['b|y|high', 'no_results'],
    ['r|x|none', 'reference'],
  ])
})

test('accuracy and costs are computed from whole numbers', () => {
  fc.assert(
    fc.property(trials, (all) => {
      const chosen = publishable(buildResults(facts, all, approved))
      const tasks = listTasks(chosen)
      for (const result of chosen) {
        expect(result.cells.every(({ task }) => tasks.includes(task))).toBe(true)
        expect(countPassed(result)).toBeLessThanOrEqual(result.cells.length)
        expect(Number.isSafeInteger(sumCostMicros(result))).toBe(true)
        expect(isComplete(result, tasks)).toBe(result.cells.length === tasks.length)
      }
    }),
  )
})

test('a beaten setting never changes the frontier, and an incomplete one is never on it', () => {
  fc.assert(
    fc.property(trials, fc.integer({ min: 1, max: 1_000_000 }), (all, dearer) => {
      const chosen = publishable(buildResults(facts, all, approved))
      const before = computeFrontier(chosen)
      for (const id of before)
        expect(chosen.find((each) => each.id === id)?.cells.length).toBe(listTasks(chosen).length)
      const model = chosen.find(({ id }) => id === before[0])
      if (!model) return
      const cells = model.cells.map((cell) => ({ ...cell, passed: false, costMicros: (cell.costMicros ?? 0) + dearer }))
      expect(computeFrontier([...chosen, { ...model, id: 'dominated', cells }])).toEqual(before)
      expect(computeFrontier([...chosen, { ...model, id: '~tie' }])).toContain('~tie')
      expect(computeFrontier([...chosen, { ...model, id: 'gap', cells: model.cells.slice(1) }])).toEqual(before)
    }),
  )
})

const CHANGES: [string, (result: SettingResult) => SettingResult][] = [
  ['another verdict', (result) => withCell(result, { passed: true, passes: 1 })],
  ['another cost', (result) => withCell(result, { costMicros: 8 })],
  ['a cost that is not known', (result) => withCell(result, { costMicros: null })],
  ['one more attempt', (result) => withCell(result, { trials: 2 })],
  [
    'tokens',
    (result) => withCell(result, { usage: { input: 1, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 } }),
  ],
  ['another task', (result) => withCell(result, { task: 't2' })],
  ['a harness version', (result) => ({ ...result, cohort: { harnessVersion: '2', sandbox: 's', verifyMode: 'm' } })],
  ['an isolation', (result) => ({ ...result, isolation: 'mixed' })],
  ['a label', (result) => ({ ...result, model: { ...result.model, label: 'New' } })],
  ['an error more', (result) => ({ ...result, errored: 1 })],
  ['a void more', (result) => ({ ...result, voided: 1 })],
]

const withCell = (result: SettingResult, over: Partial<SettingResult['cells'][number]>): SettingResult => ({
  ...result,
  cells: result.cells.map((cell) => ({ ...cell, ...over })),
})

test('the fingerprint changes with every published fact and with nothing else', () => {
  const one = { setting: 'a|x|low', task: 't1', state: 'failed' } as const
  const results = buildResults([setting('a|x|low')], [trial(one)], approved)
  const before = computeFingerprint(results, approved)
  const seen = new Set([before])
  for (const [what, change] of CHANGES) {
    const after = computeFingerprint(results.map(change), approved)
    expect(seen.has(after), what).toBe(false)
    seen.add(after)
    expect(computeContentHash(results.map(change)), what).not.toBe(computeContentHash(results))
  }
  expect(computeFingerprint(results, ['t1'])).not.toBe(before)
  const later = buildResults(
    [setting('a|x|low')],
    [trial({ ...one, comparison: 9, comparedAt: 99, attempt: 2, trial: 'other' })],
    approved,
  )
  expect(computeFingerprint(later, approved)).toBe(before)
})

test('the content hash of a selection is independent of other results', () => {
  const all = SETTINGS.map((id) => trial({ setting: id, task: 't1' }))
  const [first, second] = buildResults(facts, all, approved)
  const [again, changed] = buildResults(
    facts,
    [...all.slice(0, 1), trial({ setting: 'b|x|low', task: 't1', state: 'failed' })],
    approved,
  )
  if (!first || !second || !again || !changed) throw new Error('There should be results.')
  expect(computeContentHash([again])).toBe(computeContentHash([first]))
  expect(computeContentHash([changed])).not.toBe(computeContentHash([second]))
  expect(computeContentHash([first, second])).not.toBe(computeContentHash([first]))
})

test('canonical JSON follows RFC 8785', () => {
  // Section 3.2.2 of the RFC, and the order of its section 3.2.3.
  const numbers: [number, string][] = [
    [Number('333333333.33333329'), '333333333.3333333'],
    [1e30, '1e+30'],
    [4.5, '4.5'],
    [2e-3, '0.002'],
    [0.000000000000000000000000001, '1e-27'],
    [-0, '0'],
    [5e-324, '5e-324'],
    [9007199254740992, '9007199254740992'],
    [295147905179352830000, '295147905179352830000'],
    [999999999999999900000, '999999999999999900000'],
    [1e21, '1e+21'],
    [9.999999999999997e-7, '9.999999999999997e-7'],
    [0.000001, '0.000001'],
  ]
  for (const [value, text] of numbers) expect(canonicalJson(value)).toBe(text)
  const text = '\u20ac$\u000F\u000aA\'\u0042\u0022\u005c\\"\u0000/'
  expect(canonicalJson({ numbers: [1, 2.5], string: text, literals: [null, true, false] })).toBe(
    `{"literals":[null,true,false],"numbers":[1,2.5],"string":${'"€$\\u000f\\nA\'B\\"\\\\\\\\\\"\\u0000/"'}}`,
  )
  const order = { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '\u{1f600}': 5, '\u0080': 6, '\u00f6': 7 }
  expect(canonicalJson(order)).toBe('{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}')
  for (const wrong of [Number.NaN, Number.POSITIVE_INFINITY, [1, Number.NaN]])
    expect(() => canonicalJson(wrong)).toThrow(new TypeError('JSON cannot represent this number'))
  for (const wrong of ['\ud800', { '\udfff': 1 }, ['a', '\udc00']])
    expect(() => canonicalJson(wrong)).toThrow(new TypeError('The string contains an unpaired surrogate'))
  expect(canonicalJson([1, { b: true, a: [false, { d: null, c: 'x' }] }])).toBe(
    '[1,{"a":[false,{"c":"x","d":null}],"b":true}]',
  )
})

test('canonical JSON is deterministic and round-trips', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'grapheme' }), (value) => {
      const text = canonicalJson(value as CanonicalJson)
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
      expect(canonicalJson(JSON.parse(text))).toBe(text)
    }),
  )
})
