import fc from 'fast-check'
import { expect, test } from 'vitest'
import { computeSmallestDifference, computeWilsonInterval } from '../statistics/intervals.ts'
import { buildInitialCounts, type CellTrial, countCell, diffCell, sumCounts, toCountPart } from './counts.ts'
import { countTrials, findOrdinal, formatTrialId, listCellOrdinals, planTrials, toOrdinal } from './plan.ts'

const shapes = fc.record({
  tasks: fc.integer({ min: 1, max: 12 }),
  settings: fc.integer({ min: 1, max: 8 }),
  attempts: fc.integer({ min: 1, max: 10 }),
})

test('a plan contains every position once, first attempts first, and its cells match', () => {
  fc.assert(
    fc.property(shapes, (shape) => {
      const trials = planTrials(shape, [])
      expect(trials).toHaveLength(countTrials(shape))
      expect(trials.map(({ ordinal }) => ordinal)).toEqual([...trials.keys()])
      for (const trial of trials) {
        expect(toOrdinal(shape, trial)).toBe(trial.ordinal)
        expect(listCellOrdinals(shape, trial)[trial.attempt - 1]).toBe(trial.ordinal)
      }
      const attempts = trials.map(({ attempt }) => attempt)
      expect(attempts).toEqual(attempts.toSorted((a, b) => a - b))
    }),
  )
})

test.each([1, 2, 4, 7, 8, 20, 60])(
  'with %i settings, the trials of each are spread over all its count rows',
  (settings) => {
    const shape = { tasks: 100, settings, attempts: 1 }
    const parts = Map.groupBy(planTrials(shape, []), ({ setting }) => setting)
    for (const trials of parts.values()) {
      const counts = Map.groupBy(trials, ({ ordinal }) => toCountPart(ordinal))
      expect([...counts.keys()].sort()).toEqual([0, 1, 2, 3])
      for (const part of counts.values()) expect(part.length).toBeLessThan(50)
    }
  },
)

test('each completed trial replaces one attempt, the oldest the first, and never more than exist', () => {
  const shape = { tasks: 2, settings: 2, attempts: 2 }
  const old = (ordinal: number) => ({
    task: 1,
    setting: 0,
    comparison: 7,
    ordinal,
    state: 'passed' as const,
    costMicros: 5,
  })
  const trials = planTrials(shape, [old(3), old(4), old(5)])
  const filled = trials.filter(({ reused }) => reused)
  expect(filled.map(({ task, setting, attempt, reused }) => [task, setting, attempt, reused?.ordinal])).toEqual([
    [1, 0, 1, 3],
    [1, 0, 2, 4],
  ])
  const counts = sumCounts(buildInitialCounts(2, trials))
  expect(counts).toMatchObject({ queued: 6, passed: 2, reused: 2, tasks: 1, tasks_passed: 1, tasks_micros: 5 })
})

const cellTrials = fc.array(
  fc.record({
    state: fc.constantFrom('queued', 'running', 'passed', 'failed', 'errored', 'canceled'),
    costMicros: fc.option(fc.integer({ min: 0, max: 1e6 }), { nil: null }),
    voided: fc.boolean(),
  }),
  { minLength: 1, maxLength: 10 },
)
const numbered = (trials: Omit<CellTrial, 'attempt'>[]): CellTrial[] =>
  trials.map((trial, index) => ({ ...trial, attempt: index + 1 }))

test('changes of a cell add up to its counts in whole numbers, in any order of finishing', () => {
  fc.assert(
    fc.property(cellTrials, fc.array(fc.nat(), { maxLength: 20 }), (trials, order) => {
      const end = numbered(trials)
      let now: CellTrial[] = end.map((trial) => ({ ...trial, state: 'queued', voided: false, costMicros: null }))
      const changes = [countCell(now)]
      for (const place of [...order.map((n) => n % end.length), ...end.keys()]) {
        const next = now.map((trial, index) => (index === place ? (end[index] ?? trial) : trial))
        changes.push({ ...countCell([]), ...diffCell(now, next) })
        now = next
      }
      expect(sumCounts(changes)).toMatchObject(countCell(end))
      expect(Object.values(countCell(end)).every(Number.isInteger)).toBe(true)
    }),
  )
})

test('an interval contains its mean, is never empty, and is undefined below five tasks', () => {
  expect(computeWilsonInterval({ tasks: 4, trials: 4, mean: 1, variance: 0 })).toBeUndefined()
  const all = computeWilsonInterval({ tasks: 5, trials: 5, mean: 1, variance: 0 })
  expect(all?.high).toBe(1)
  expect(all?.low).toBeGreaterThan(0.3)
  expect(all?.low).toBeLessThan(0.6)
  const half = computeWilsonInterval({ tasks: 24, trials: 24, mean: 0.6, variance: 0.25 })
  expect((half?.high ?? 0) - (half?.low ?? 0)).toBeCloseTo(0.382, 1)
})

test('the smallest detectable difference matches the simulations', () => {
  for (const [tasks, attempts, points] of [
    [24, 1, 31],
    [24, 3, 19],
    [50, 3, 14],
    [100, 3, 10],
  ] as const)
    expect(Math.abs(computeSmallestDifference(tasks, attempts) - points)).toBeLessThan(1.1)
  expect(computeSmallestDifference(1, 1)).toBe(100)
})

test('a trial id resolves only in its own comparison', () => {
  const id = formatTrialId({ comparison: 123_456, ordinal: 99_999 })
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(findOrdinal(123_456, id.toUpperCase())).toBe(99_999)
  expect(findOrdinal(123_457, id)).toBeUndefined()
  expect(findOrdinal(1, '00000000-0000-4000-8000-000000000000')).toBeUndefined()
})
