import { describe, expect, test } from 'vitest'
import { interval } from '../../comparisons/statistics.ts'
import type { Result } from '../aggregate.ts'
import type { Cell } from '../cohort.ts'
import { setting } from '../testing/made-up.ts'
import { scoresOf, statsOf } from './stats.ts'

const SEED = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const USAGE = { input: 60, cacheRead: 30, cacheWrite: 10, output: 5, reasoning: 2 }

/** A task by its passes of its trials, such as `2/3`. The first trial passes if any does. */
function cell(task: string, text: string, over: Partial<Cell> = {}): Cell {
  const [passes = 0, trials = 0] = text.split('/').map(Number)
  return {
    task,
    passes,
    trials,
    passed: passes > 0,
    costMicros: 10,
    costSource: 'gateway',
    usage: USAGE,
    resources: null,
    trial: task,
    ...over,
  }
}
const result = (id: string, cells: Cell[], over: Partial<Result> = {}): Result => ({
  ...setting(id),
  cohort: null,
  isolation: null,
  cells,
  errored: 0,
  voided: 0,
  reason: undefined,
  ...over,
})
const tasks = (...texts: string[]): Cell[] => texts.map((text, index) => cell(`t${index}`, text))
const statsFor = (...chosen: Result[]) => [...statsOf(chosen, SEED).values()]
const statsForCells = (cells: Cell[]) => statsFor(result('a', cells))[0]

describe('accuracy', () => {
  test('is the mean of the shares of passes, with the interval of its tasks', () => {
    const found = statsForCells(tasks('1/1', '0/2', '1/2', '3/3', '1/4', '2/2'))
    const shares = [1, 0, 0.5, 1, 0.25, 1]
    const mean = 3.75 / 6
    const variance = shares.reduce((sum, share) => sum + (share - mean) ** 2, 0) / 5
    const expected = interval({ tasks: 6, trials: 14, mean, variance })
    expect(found?.passAt1).toBeCloseTo(62.5, 9)
    expect(found?.ci95).toEqual({
      low: expect.closeTo(100 * (expected?.low ?? 0), 9),
      high: expect.closeTo(100 * (expected?.high ?? 0), 9),
      level: 0.95,
      method: 'wilson-task-clustered',
      tasks: 6,
      trials: 14,
    })
  })

  test('has no interval below five tasks, and is 0 without any', () => {
    expect(statsForCells(tasks('1/1'))).toMatchObject({ passAt1: 100, ci95: null })
    expect(statsForCells(tasks('1/1', '0/1', '0/1', '0/1'))).toMatchObject({ passAt1: 25, ci95: null })
    expect(statsForCells([])).toMatchObject({ passAt1: 0, ci95: null, coverage: 0 })
  })
})

describe('usage', () => {
  test('is the mean over tasks of every class of tokens', () => {
    const more = { input: 80, cacheRead: 50, cacheWrite: 30, output: 15, reasoning: 8 }
    const found = statsForCells([cell('t1', '1/1'), cell('t2', '1/1', { usage: more })])
    expect(found?.usagePerTask).toEqual({ input: 70, cacheRead: 40, cacheWrite: 20, output: 10, reasoning: 5 })
    expect(found?.cacheHitRate).toBeCloseTo((100 * 80) / 260, 9)
  })

  test('is unknown when one task does not tell, or there is none', () => {
    const unknown = { usagePerTask: null, cacheHitRate: null }
    expect(statsForCells([cell('t1', '1/1'), cell('t2', '1/1', { usage: null })])).toMatchObject(unknown)
    expect(statsForCells([cell('t1', '1/1', { usage: null })])).toMatchObject(unknown)
    expect(statsForCells([])).toMatchObject(unknown)
  })

  test('has no share of cache hits without any input', () => {
    const output = { input: 0, cacheRead: 0, cacheWrite: 0, output: 5, reasoning: 0 }
    expect(statsForCells([cell('t1', '1/1', { usage: output })])).toMatchObject({
      usagePerTask: output,
      cacheHitRate: null,
    })
    const written = { ...output, cacheWrite: 3 }
    expect(statsForCells([cell('t1', '1/1', { usage: written })])?.cacheHitRate).toBe(0)
  })
})

describe('several settings', () => {
  const full = result('full', tasks('1/1', '1/1', '1/1', '1/1'))
  const half = result('half', tasks('1/1', '1/1'), { errored: 3 })

  test('are covered by the share of all tasks that they have', () => {
    expect(statsFor(full, half).map(({ coverage, errored }) => [coverage, errored])).toEqual([
      [100, 0],
      [50, 3],
    ])
  })

  test('have a probability to be on the frontier only with every task and a reason to be published', () => {
    const dear = result(
      'dear',
      tasks('1/1', '1/1', '1/1', '1/1').map((each) => ({ ...each, costMicros: 11 })),
    )
    const unpriced = result('unpriced', tasks('1/1', '1/1', '1/1', '1/1'), { reason: 'cost_unknown' })
    const found = statsOf([full, half, dear, unpriced], SEED)
    expect([...found].map(([id, { frontierProbability }]) => [id, frontierProbability])).toEqual([
      ['full', 1],
      ['half', null],
      ['dear', 0],
      ['unpriced', null],
    ])
  })

  test('are on the frontier by their first trials and costs, in whatever order they come', () => {
    const cheap = result(
      'cheap',
      tasks('0/1', '1/1', '0/1').map((each) => ({ ...each, costMicros: 1 })),
    )
    const good = result(
      'good',
      tasks('1/1', '1/1', '1/1').map((each) => ({ ...each, costMicros: 5 })),
    )
    const bad = result(
      'bad',
      tasks('0/1', '0/1', '0/1').map((each) => ({ ...each, costMicros: 4 })),
    )
    for (const order of [
      [good, bad, cheap],
      [cheap, bad, good],
    ]) {
      const found = statsOf(order, SEED)
      expect(found.get('good')?.frontierProbability).toBeGreaterThan(0.9)
      expect(found.get('cheap')?.frontierProbability).toBeCloseTo(1 - (2 / 3) ** 3, 1)
      expect(found.get('bad')?.frontierProbability).toBe(0)
    }
  })

  test('have ranks, in their own order', () => {
    const ten = (text: string) => tasks(...Array<string>(10).fill(text))
    expect(statsFor(result('a', ten('0/3')), result('b', ten('3/3'))).map(({ rank }) => rank)).toEqual([
      { best: 2, worst: 2 },
      { best: 1, worst: 1 },
    ])
  })

  test('say where their costs come from: one source, or mixed', () => {
    const sources = (...all: (string | null)[]) =>
      statsForCells(all.map((costSource, index) => cell(`t${index}`, '1/1', { costSource })))?.costSource
    expect(sources('gateway', 'gateway')).toBe('gateway')
    expect(sources('gateway', 'harness')).toBe('mixed')
    expect(sources('gateway', null)).toBe('gateway')
    expect(sources(null)).toBeNull()
  })

  test('name their methods, with the number of draws', () => {
    expect(statsFor(full)[0]?.methods).toEqual({
      rank: 'holm-paired-t',
      frontierProbability: 'task-bootstrap-1000-sfc32',
    })
  })

  test('are as reliable as their tasks', () => {
    expect(statsForCells(tasks('1/2', '2/2'))?.reliability).toMatchObject({ trials: 2, always: 1, sometimes: 1 })
    expect(statsForCells(tasks('1/1', '2/2'))?.reliability).toBeNull()
  })
})

test('scores are the trials and passes of every task', () => {
  const found = scoresOf(result('a', tasks('1/2', '0/3')))
  expect([...found].map(([task, { trials, passes }]) => [task, trials, passes])).toEqual([
    ['t0', 2, 1],
    ['t1', 3, 0],
  ])
})
