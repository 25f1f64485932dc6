import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ALL_MEMORY_MB, admit, type QueueClass, type QueueState, type WorkerCapacity } from './admission.ts'

const empty: QueueState = { queueClasses: [], running: [], limits: [], turns: [], memoryMbTaken: 0 }
const ample: WorkerCapacity = { slots: 8, starts: 100, memoryMb: 100_000 }

/** Builds a class of `jobs` due jobs, the oldest with the rank `rank`. */
const newClass = (
  name: string,
  { jobs = 100, rank = 1, ...rest }: Partial<QueueClass> & { jobs?: number; rank?: number },
): QueueClass => ({
  id: name,
  priority: 0,
  fairGroup: '/',
  limitKeys: [],
  memoryMb: 0,
  ranks: Array.from({ length: jobs }, (_, i) => rank + i),
  ...rest,
})

const taken = (queue: Partial<QueueState>, capacity: Partial<WorkerCapacity> = {}): Record<string, number> =>
  Object.fromEntries(admit({ ...empty, ...queue }, { ...ample, ...capacity }).jobCounts)

test('groups take turns, whatever their number of jobs and their age', () => {
  const queueClasses = [
    newClass('big', { fairGroup: 'w/big', jobs: 1_000 }),
    newClass('small', { fairGroup: 'w/small', jobs: 10, rank: 9_000 }),
  ]
  expect(taken({ queueClasses })).toEqual({ big: 4, small: 4 })
})

test('a workspace with many comparisons gets no more starts than one with a single comparison', () => {
  const many = Array.from({ length: 9 }, (_, i) => newClass(`many ${i}`, { fairGroup: `many/${i}` }))
  const counts = taken({ queueClasses: [...many, newClass('one', { fairGroup: 'one/0' })] })
  expect(counts.one).toBe(4)
})

test('the group with fewer running jobs starts first, then the one served longest ago; never served counts as longest', () => {
  const queueClasses = ['a', 'b', 'c', 'd'].map((name) => newClass(name, { fairGroup: `w/${name}` }))
  const running = [{ fairGroup: 'w/a', limitKeys: [], jobs: 3 }]
  const turns = [
    { fairGroup: 'w/b', served: 7 },
    { fairGroup: 'w/c', served: 5 },
  ]
  const order = [1, 2, 3].map((slots) => Object.keys(taken({ queueClasses, running, turns }, { slots })).sort())
  expect(order).toEqual([['d'], ['c', 'd'], ['b', 'c', 'd']])
  expect(taken({ queueClasses, running, turns }, { slots: 9 })).toEqual({ b: 3, c: 3, d: 3 })
})

test('slots that are not shared go to groups without a job in this worker, one each', () => {
  const queueClasses = ['a', 'b', 'c'].map((name) => newClass(name, { fairGroup: `${name}/` }))
  const running = [
    { fairGroup: 'a/', limitKeys: [], jobs: 1, ownJobs: 1 },
    { fairGroup: 'b/', limitKeys: [], jobs: 5, ownJobs: 0 },
  ]
  expect(taken({ queueClasses, running }, { slots: 8, sharedSlots: 0 })).toEqual({ b: 1, c: 1 })
  expect(taken({ queueClasses, running }, { slots: 8, sharedSlots: -3 })).toEqual({ b: 1, c: 1 })
  expect(taken({ queueClasses, running }, { slots: 8, sharedSlots: 3 })).toEqual({ a: 1, b: 1, c: 2 })
})

test('a higher priority precedes all turns; within a group the oldest job starts first', () => {
  const urgent = newClass('urgent', { fairGroup: 'w/busy', priority: 1, jobs: 2 })
  const queueClasses = [newClass('new', { rank: 50 }), newClass('old', { rank: 1, jobs: 3 }), urgent]
  const running = [{ fairGroup: 'w/busy', limitKeys: [], jobs: 50 }]
  expect(taken({ queueClasses, running }, { slots: 6 })).toEqual({ urgent: 2, old: 3, new: 1 })
})

test('a job starts when each of its keys has a free slot; a key without a limit always has one', () => {
  const queueClasses = [
    newClass('both', { limitKeys: ['a', 'b'] }),
    newClass('free', { limitKeys: ['no limit'], rank: 500, jobs: 1 }),
    newClass('paused', { limitKeys: ['off'], priority: 9 }),
  ]
  const limits = [
    { key: 'a', slots: 5 },
    { key: 'b', slots: 3 },
    { key: 'off', slots: 0 },
  ]
  const running = [{ fairGroup: '/', limitKeys: ['a'], jobs: 3 }]
  expect(taken({ queueClasses, limits, running })).toEqual({ both: 2, free: 1 })
})

test('a job that needs two keys is not starved by jobs that need one of them', () => {
  const queueClasses = [
    newClass('both', { limitKeys: ['a', 'b'], fairGroup: 'w/both' }),
    newClass('only a', { limitKeys: ['a'], fairGroup: 'w/a' }),
  ]
  const limits = ['a', 'b'].map((key) => ({ key, slots: 1 }))
  const turns = [{ fairGroup: 'w/a', served: 1 }]
  const running = [{ fairGroup: 'w/b', limitKeys: ['b'], jobs: 1 }]
  // The free slot of a is reserved for the job that still waits for b.
  expect(taken({ queueClasses, limits, turns, running })).toEqual({})
  expect(taken({ queueClasses, limits, turns })).toEqual({ both: 1 })
})

test('jobs share the memory of the host; jobs without memory do not wait for it', () => {
  const queueClasses = [newClass('heavy', { memoryMb: 300 }), newClass('light', { jobs: 1, rank: 500 })]
  expect(taken({ queueClasses, memoryMbTaken: 350 }, { memoryMb: 1_000 })).toEqual({ heavy: 2, light: 1 })
  expect(taken({ queueClasses }, { starts: 1 })).toEqual({ heavy: 1, light: 1 })
  expect(taken({ queueClasses }, { starts: 0 })).toEqual({ light: 1 })
})

test('a big job is not starved by small ones: freed memory is reserved for it', () => {
  const queueClasses = [
    newClass('big', { memoryMb: 800, fairGroup: 'w/big' }),
    newClass('small', { memoryMb: 100, fairGroup: 'w/small' }),
  ]
  const turns = [{ fairGroup: 'w/small', served: 1 }]
  expect(taken({ queueClasses, turns, memoryMbTaken: 300 }, { memoryMb: 1_000 })).toEqual({})
  expect(taken({ queueClasses, turns, memoryMbTaken: 200 }, { memoryMb: 1_000 })).toEqual({ big: 1 })
})

test('a big job that also waits for a key reserves no memory', () => {
  const queueClasses = [
    newClass('big', { memoryMb: 800, fairGroup: 'w/big', limitKeys: ['full'] }),
    newClass('small', { memoryMb: 100, fairGroup: 'w/small' }),
  ]
  const running = [{ fairGroup: 'w/other', limitKeys: ['full'], jobs: 1 }]
  const limits = [{ key: 'full', slots: 1 }]
  expect(taken({ queueClasses, running, limits, memoryMbTaken: 300 }, { memoryMb: 1_000 })).toEqual({ small: 7 })
})

test('a group takes no more than its share of the memory, whatever its jobs declare', () => {
  const queueClasses = [
    newClass('greedy', { memoryMb: 200, fairGroup: 'greedy/' }),
    newClass('huge', { memoryMb: 1_000, fairGroup: 'huge/' }),
  ]
  const capacity = { memoryMb: 1_000, groupMemoryMb: 500 }
  expect(taken({ queueClasses }, capacity)).toEqual({ greedy: 2, huge: 1 })
  const running = [{ fairGroup: 'huge/', limitKeys: [], jobs: 1, memoryMb: 500 }]
  expect(taken({ queueClasses, running, memoryMbTaken: 500 }, capacity)).toEqual({ greedy: 2 })
})

test('a group that has taken its share of the memory reserves none', () => {
  const queueClasses = [
    newClass('greedy', { memoryMb: 500, fairGroup: 'greedy/' }),
    newClass('other', { memoryMb: 400, fairGroup: 'other/', rank: 500 }),
  ]
  const running = [
    { fairGroup: 'greedy/', limitKeys: [], jobs: 1, memoryMb: 500 },
    { fairGroup: 'other/', limitKeys: [], jobs: 2, memoryMb: 0 },
  ]
  const capacity = { memoryMb: 1_000, groupMemoryMb: 500 }
  expect(taken({ queueClasses, running, memoryMbTaken: 500 }, capacity)).toEqual({ other: 1 })
})

test('a job that needs more memory than the host leaves the memory of other groups to them', () => {
  const queueClasses = [
    newClass('huge', { memoryMb: 1_001, fairGroup: 'huge/' }),
    newClass('other', { memoryMb: 400, fairGroup: 'other/', jobs: 1 }),
  ]
  const capacity = { memoryMb: 1_000, groupMemoryMb: 500 }
  expect(taken({ queueClasses }, capacity)).toEqual({ huge: 1, other: 1 })
  const running = [{ fairGroup: 'other/', limitKeys: [], jobs: 1, memoryMb: 500 }]
  expect(taken({ queueClasses, running, memoryMbTaken: 500 }, capacity)).toEqual({ huge: 1 })
})

test('a job that must run alone waits for the memory of all groups', () => {
  const queueClasses = [
    newClass('alone', { memoryMb: ALL_MEMORY_MB }),
    newClass('other', { memoryMb: 1, rank: 1, fairGroup: 'other/' }),
  ]
  const capacity = { memoryMb: 1_000, groupMemoryMb: 500 }
  expect(taken({ queueClasses, memoryMbTaken: 1 }, capacity)).toEqual({})
  expect(taken({ queueClasses }, capacity)).toEqual({ alone: 1 })
})

test('a job that needs more memory than the host runs there alone if its group may take all memory', () => {
  const queueClasses = [newClass('huge', { memoryMb: 5_000 })]
  expect(taken({ queueClasses }, { memoryMb: 1_000 })).toEqual({ huge: 1 })
  expect(taken({ queueClasses, memoryMbTaken: 1 }, { memoryMb: 1_000 })).toEqual({})
})

const KEYS = ['a', 'b', '__proto__', '']
const arbitraryClass = fc.record({
  priority: fc.integer({ min: -2, max: 2 }),
  fairGroup: fc.constantFrom('/', 'w/1', 'w/2', 'v/1', 'w//', '__proto__/x'),
  limitKeys: fc.uniqueArray(fc.constantFrom(...KEYS)),
  memoryMb: fc.constantFrom(0, 0, 100, 400, 5_000),
  jobs: fc.integer({ min: 0, max: 6 }),
})
const arbitraryQueue = fc.record({
  queueClasses: fc.array(arbitraryClass, { maxLength: 8 }),
  limits: fc.uniqueArray(fc.record({ key: fc.constantFrom(...KEYS), slots: fc.integer({ min: 0, max: 4 }) }), {
    selector: (limit) => limit.key,
  }),
  running: fc.array(
    fc.record({
      fairGroup: fc.constantFrom('/', 'w/1', 'gone/2'),
      limitKeys: fc.uniqueArray(fc.constantFrom(...KEYS)),
      jobs: fc.integer({ min: 1, max: 3 }),
    }),
  ),
  memoryMbTaken: fc.integer({ min: 0, max: 1_200 }),
})
const arbitraryCapacity = fc.record({
  slots: fc.integer({ min: 0, max: 20 }),
  starts: fc.integer({ min: 0, max: 5 }),
  memoryMb: fc.constantFrom(1_000, Number.POSITIVE_INFINITY),
})

const hasKey = (limitKeys: readonly string[], key: string): boolean => limitKeys.includes(key)
const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)

test('never exceeds slots, limits, starts or memory, whatever is queued and running', () => {
  fc.assert(
    fc.property(arbitraryQueue, arbitraryCapacity, (drawn, capacity) => {
      const queueClasses = drawn.queueClasses.map((draft, i) => newClass(String(i), { ...draft, rank: i * 100 }))
      const { jobCounts } = admit({ ...drawn, queueClasses, turns: [] }, capacity)
      const started = queueClasses.flatMap((each) => Array.from({ length: jobCounts.get(each.id) ?? 0 }, () => each))
      expect(started.length).toBeLessThanOrEqual(capacity.slots)
      for (const each of queueClasses) expect(jobCounts.get(each.id) ?? 0).toBeLessThanOrEqual(each.ranks.length)
      expectLimits(drawn, started)
      expectMemory(drawn, capacity, started)
    }),
    { numRuns: 2_000 },
  )
})

function expectLimits({ limits, running }: Pick<QueueState, 'limits' | 'running'>, started: QueueClass[]): void {
  for (const { key, slots } of limits) {
    const before = sum(running.filter((each) => hasKey(each.limitKeys, key)).map((each) => each.jobs))
    const more = started.filter((each) => hasKey(each.limitKeys, key)).length
    expect(more).toBeLessThanOrEqual(Math.max(0, slots - before))
  }
}

function expectMemory(
  { memoryMbTaken }: Pick<QueueState, 'memoryMbTaken'>,
  capacity: WorkerCapacity,
  started: QueueClass[],
): void {
  const heavy = started.map((each) => each.memoryMb).filter((memoryMb) => memoryMb > 0)
  expect(heavy.length).toBeLessThanOrEqual(capacity.starts)
  const alone = heavy.length === 1 && memoryMbTaken === 0
  if (heavy.length > 0 && !alone) expect(memoryMbTaken + sum(heavy)).toBeLessThanOrEqual(capacity.memoryMb)
}
