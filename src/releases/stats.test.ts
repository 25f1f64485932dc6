import { describe, expect, test } from 'vitest'
import { setting } from '../../test/support/releases/arbitrary-trials.ts'
import { computeWilsonInterval } from '../statistics/intervals.ts'
import type { SettingResult } from './aggregate.ts'
import type { ResultCell } from './cohort.ts'
import { computeSettingStats, toScores } from './stats.ts'

const SEED = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const USAGE = { input: 60, cacheRead: 30, cacheWrite: 10, output: 5, reasoning: 2 }

/** A task by its passes of its trials, such as `2/3`. The first trial passes if any does. */
function cell(task: string, text: string, over: Partial<ResultCell> = {}): ResultCell {
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
    agentSeconds: null,
    trial: task,
    ...over,
  }
}
const result = (id: string, cells: ResultCell[], over: Partial<SettingResult> = {}): SettingResult => ({
  ...setting(id),
  cohort: null,
  isolation: null,
  cells,
  errored: 0,
  voided: 0,
  reason: undefined,
  ...over,
})
const tasks = (...texts: string[]): ResultCell[] => texts.map((text, index) => cell(`t${index}`, text))
const statsFor = (...chosen: SettingResult[]) => [...computeSettingStats(chosen, SEED).values()]
const statsForCells = (cells: ResultCell[]) => statsFor(result('a', cells))[0]

describe('accuracy', () => {
  test('is the mean pass share, with the interval over tasks', () => {
    const found = statsForCells(tasks('1/1', '0/2', '1/2', '3/3', '1/4', '2/2'))
    const shares = [1, 0, 0.5, 1, 0.25, 1]
    const mean = 3.75 / 6
    const variance = shares.reduce((sum, share) => sum + (share - mean) ** 2, 0) / 5
    const expected = computeWilsonInterval({ tasks: 6, trials: 14, mean, variance })
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

  test('has no interval below five tasks, and is 0 without tasks', () => {
    expect(statsForCells(tasks('1/1'))).toMatchObject({ passAt1: 100, ci95: null })
    expect(statsForCells(tasks('1/1', '0/1', '0/1', '0/1'))).toMatchObject({ passAt1: 25, ci95: null })
    expect(statsForCells([])).toMatchObject({ passAt1: 0, ci95: null, coverage: 0 })
  })
})

describe('duration', () => {
  const timed = (...seconds: (number | null)[]) =>
    statsForCells(seconds.map((agentSeconds, index) => cell(`t${index}`, '1/1', { agentSeconds })))?.medianSeconds

  test('is the median over tasks: the middle one, or the mean of the two in the middle', () => {
    expect(timed(90)).toBe(90)
    expect(timed(300, 10, 20)).toBe(20)
    expect(timed(40, 10, 300, 20)).toBe(30)
  })

  test('is null if the duration of one task is unknown or there is no task', () => {
    expect(timed(10, null, 20)).toBeNull()
    expect(timed()).toBeNull()
  })
})

describe('usage', () => {
  test('is the mean over tasks of every kind of token', () => {
    const more = { input: 80, cacheRead: 50, cacheWrite: 30, output: 15, reasoning: 8 }
    const found = statsForCells([cell('t1', '1/1'), cell('t2', '1/1', { usage: more })])
    expect(found?.usagePerTask).toEqual({ input: 70, cacheRead: 40, cacheWrite: 20, output: 10, reasoning: 5 })
    expect(found?.cacheHitRate).toBeCloseTo((100 * 80) / 260, 9)
  })

  test('is null if the usage of one task is unknown or there is no task', () => {
    const unknown = { usagePerTask: null, cacheHitRate: null }
    expect(statsForCells([cell('t1', '1/1'), cell('t2', '1/1', { usage: null })])).toMatchObject(unknown)
    expect(statsForCells([cell('t1', '1/1', { usage: null })])).toMatchObject(unknown)
    expect(statsForCells([])).toMatchObject(unknown)
  })

  test('has no cache hit rate without input', () => {
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

  test('have the share of all tasks with results as coverage', () => {
    expect(statsFor(full, half).map(({ coverage, errored }) => [coverage, errored])).toEqual([
      [100, 0],
      [50, 3],
    ])
  })

  test('have a frontier probability only if they are complete and publishable', () => {
    const dear = result(
      'dear',
      tasks('1/1', '1/1', '1/1', '1/1').map((each) => ({ ...each, costMicros: 11 })),
    )
    const unpriced = result('unpriced', tasks('1/1', '1/1', '1/1', '1/1'), { reason: 'cost_unknown' })
    const found = computeSettingStats([full, half, dear, unpriced], SEED)
    expect([...found].map(([id, { frontierProbability }]) => [id, frontierProbability])).toEqual([
      ['full', 1],
      ['half', null],
      ['dear', 0],
      ['unpriced', null],
    ])
  })

  test('are on the frontier by their canonical trials and costs, in any order', () => {
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
      const found = computeSettingStats(order, SEED)
      expect(found.get('good')?.frontierProbability).toBeGreaterThan(0.9)
      expect(found.get('cheap')?.frontierProbability).toBeCloseTo(1 - (2 / 3) ** 3, 1)
      expect(found.get('bad')?.frontierProbability).toBe(0)
    }
  })

  test('have rank ranges in the order of the settings', () => {
    const ten = (text: string) => tasks(...Array<string>(10).fill(text))
    expect(statsFor(result('a', ten('0/3')), result('b', ten('3/3'))).map(({ rank }) => rank)).toEqual([
      { best: 2, worst: 2 },
      { best: 1, worst: 1 },
    ])
  })

  test('have one cost source, or mixed', () => {
    const sources = (...all: (string | null)[]) =>
      statsForCells(all.map((costSource, index) => cell(`t${index}`, '1/1', { costSource })))?.costSource
    expect(sources('gateway', 'gateway')).toBe('gateway')
    expect(sources('gateway', 'harness')).toBe('mixed')
    expect(sources('gateway', null)).toBe('gateway')
    expect(sources(null)).toBeNull()
  })

  test('contain their methods with the number of draws', () => {
    expect(statsFor(full)[0]?.methods).toEqual({
      rank: 'holm-paired-t',
      frontierProbability: 'task-bootstrap-1000-sfc32',
    })
  })

  test('contain the reliability of their tasks', () => {
    expect(statsForCells(tasks('1/2', '2/2'))?.reliability).toMatchObject({ trials: 2, always: 1, sometimes: 1 })
    expect(statsForCells(tasks('1/1', '2/2'))?.reliability).toBeNull()
  })
})

test('scores are the trials and passes of every task', () => {
  const found = toScores(result('a', tasks('1/2', '0/3')))
  expect([...found].map(([task, { trials, passes }]) => [task, trials, passes])).toEqual([
    ['t0', 2, 1],
    ['t1', 3, 0],
  ])
})
