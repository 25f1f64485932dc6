import { expect, test } from 'vitest'
import {
  buildInitialCounts,
  type CellTrial,
  countCell,
  NO_COUNTS,
  SHARE_UNIT,
  sumCounts,
  toCountPart,
} from './counts.ts'
import { type CompletedTrial, planTrials } from './plan.ts'

const trial = (attempt: number, state: CellTrial['state'], over: Partial<CellTrial> = {}): CellTrial => ({
  attempt,
  state,
  costMicros: 10 * attempt,
  voided: false,
  ...over,
})
const NOTHING = { tasks: 0, tasks_passed: 0, tasks_micros: 0, tasks_unpriced: 0, shares: 0, share_squares: 0 }

test.each<[guarantee: string, trials: CellTrial[], counts: Partial<typeof NOTHING>]>([
  ['a task without trials counts nothing', [], {}],
  ['a passed trial', [trial(1, 'passed')], { tasks: 1, tasks_passed: 1, tasks_micros: 10, shares: 2520 }],
  ['a failed trial', [trial(1, 'failed')], { tasks: 1, tasks_micros: 10 }],
  ['a failed trial without a cost', [trial(1, 'failed', { costMicros: null })], { tasks: 1, tasks_unpriced: 1 }],
  [
    'the first attempt decides although a later one is listed before it',
    [trial(2, 'passed'), trial(1, 'failed'), trial(3, 'passed')],
    { tasks: 1, tasks_micros: 10, shares: 1680 },
  ],
  [
    'the first attempt decides although a later one failed',
    [trial(3, 'failed'), trial(1, 'passed')],
    { tasks: 1, tasks_passed: 1, tasks_micros: 10, shares: 1260 },
  ],
  [
    'a voided attempt leaves its place to the next',
    [trial(1, 'passed', { voided: true }), trial(2, 'failed'), trial(3, 'passed')],
    { tasks: 1, tasks_micros: 20, shares: 1260 },
  ],
  ...(['queued', 'running', 'errored', 'canceled'] as const).map(
    (state): [string, CellTrial[], Partial<typeof NOTHING>] => [
      `a ${state} attempt leaves its place to the next`,
      [trial(1, state), trial(2, 'passed')],
      { tasks: 1, tasks_passed: 1, tasks_micros: 20, shares: 2520 },
    ],
  ),
  ['only voided and unfinished attempts', [trial(1, 'failed', { voided: true }), trial(2, 'running')], {}],
])('%s', (_, trials, counts) => {
  const { shares = 0 } = counts
  expect(countCell(trials)).toEqual({ ...NOTHING, ...counts, share_squares: shares ** 2 })
})

test('a pass share is a whole number of units for up to ten trials', () => {
  for (let trials = 1; trials <= 10; trials++) expect(SHARE_UNIT % trials).toBe(0)
})

test('sums contain every counter, including those that no part names', () => {
  expect(sumCounts([])).toEqual(NO_COUNTS)
  expect(Object.values(sumCounts([])).every((count) => count === 0)).toBe(true)
  expect(Object.keys(sumCounts([]))).toEqual(
    expect.arrayContaining(['spent_micros', 'metered', 'spent_squares', 'reused']),
  )
  expect(sumCounts([{ spent_micros: 1, queued: 2 }, { spent_micros: 3 }])).toEqual({
    ...NO_COUNTS,
    spent_micros: 4,
    queued: 2,
  })
})

const SHAPE = { tasks: 3, settings: 2, attempts: 2 }
const completed = (task: number, setting: number, ordinal: number, state: 'passed' | 'failed'): CompletedTrial => ({
  task,
  setting,
  comparison: 7,
  ordinal,
  state,
  costMicros: 100 * ordinal,
})

test('a new comparison has four count rows per setting, and every trial is counted in its row', () => {
  const trials = planTrials(SHAPE, [])
  const rows = buildInitialCounts(SHAPE.settings, trials)
  expect(rows.map(({ setting, part }) => [setting, part])).toEqual(
    [0, 1].flatMap((setting) => [0, 1, 2, 3].map((part) => [setting, part])),
  )
  for (const row of rows) {
    const own = trials.filter(({ setting, ordinal }) => setting === row.setting && toCountPart(ordinal) === row.part)
    expect(row).toEqual({ ...NO_COUNTS, setting: row.setting, part: row.part, queued: own.length })
  }
})

test('reused trials count for their own setting and task, the oldest as the first attempt', () => {
  const old = [
    completed(0, 1, 1, 'failed'),
    completed(0, 1, 2, 'passed'),
    completed(2, 1, 3, 'passed'),
    completed(1, 0, 4, 'passed'),
  ]
  const rows = buildInitialCounts(SHAPE.settings, planTrials(SHAPE, old))
  const countsOf = (setting: number) => sumCounts(rows.filter((row) => row.setting === setting))
  expect(countsOf(0)).toEqual({
    ...NO_COUNTS,
    queued: 5,
    passed: 1,
    reused: 1,
    tasks: 1,
    tasks_passed: 1,
    tasks_micros: 400,
    shares: SHARE_UNIT,
    share_squares: SHARE_UNIT ** 2,
  })
  expect(countsOf(1)).toEqual({
    ...NO_COUNTS,
    queued: 3,
    passed: 2,
    failed: 1,
    reused: 3,
    tasks: 2,
    tasks_passed: 1,
    tasks_micros: 400,
    shares: 1.5 * SHARE_UNIT,
    share_squares: 1.25 * SHARE_UNIT ** 2,
  })
})
