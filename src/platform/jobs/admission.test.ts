import fc from 'fast-check'
import { expect, test } from 'vitest'
import { admit, type Lane, type Queue, type Room } from './admission.ts'

const empty: Queue = { lanes: [], running: [], limits: [], turns: [], memoryMbTaken: 0 }
const all: Room = { slots: 8, starts: 100, memoryMb: 100_000 }

/** `jobs` that are due, the oldest at `place`. */
const lane = (
  name: string,
  { jobs = 100, place = 1, ...rest }: Partial<Lane> & { jobs?: number; place?: number },
): Lane => ({
  lane: name,
  priority: 0,
  fairGroup: '/',
  limitKeys: [],
  memoryMb: 0,
  places: Array.from({ length: jobs }, (_, i) => place + i),
  ...rest,
})

const taken = (queue: Partial<Queue>, room: Partial<Room> = {}): Record<string, number> =>
  Object.fromEntries(admit({ ...empty, ...queue }, { ...all, ...room }).lanes)

test('groups take turns, however many jobs each has and whoever came first', () => {
  const lanes = [
    lane('big', { fairGroup: 'w/big', jobs: 1_000 }),
    lane('small', { fairGroup: 'w/small', jobs: 10, place: 9_000 }),
  ]
  expect(taken({ lanes })).toEqual({ big: 4, small: 4 })
})

test('a workspace with many comparisons gets no more than one with a single one', () => {
  const many = Array.from({ length: 9 }, (_, i) => lane(`many ${i}`, { fairGroup: `many/${i}` }))
  const counts = taken({ lanes: [...many, lane('one', { fairGroup: 'one/0' })] })
  expect(counts.one).toBe(4)
})

test('who has fewer running goes first, then who was served longest ago, and never served is longest of all', () => {
  const lanes = ['a', 'b', 'c', 'd'].map((name) => lane(name, { fairGroup: `w/${name}` }))
  const running = [{ fairGroup: 'w/a', limitKeys: [], jobs: 3 }]
  const turns = [
    { fairGroup: 'w/b', served: 7 },
    { fairGroup: 'w/c', served: 5 },
  ]
  const order = [1, 2, 3].map((slots) => Object.keys(taken({ lanes, running, turns }, { slots })).sort())
  expect(order).toEqual([['d'], ['c', 'd'], ['b', 'c', 'd']])
  expect(taken({ lanes, running, turns }, { slots: 9 })).toEqual({ b: 3, c: 3, d: 3 })
})

test('a higher priority goes before all turns; within a group the oldest goes first', () => {
  const urgent = lane('urgent', { fairGroup: 'w/busy', priority: 1, jobs: 2 })
  const lanes = [lane('new', { place: 50 }), lane('old', { place: 1, jobs: 3 }), urgent]
  const running = [{ fairGroup: 'w/busy', limitKeys: [], jobs: 50 }]
  expect(taken({ lanes, running }, { slots: 6 })).toEqual({ urgent: 2, old: 3, new: 1 })
})

test('a job starts when each of its keys has a slot; a key without a limit always has', () => {
  const lanes = [
    lane('both', { limitKeys: ['a', 'b'] }),
    lane('free', { limitKeys: ['no limit'], place: 500, jobs: 1 }),
    lane('paused', { limitKeys: ['off'], priority: 9 }),
  ]
  const limits = [
    { key: 'a', slots: 5 },
    { key: 'b', slots: 3 },
    { key: 'off', slots: 0 },
  ]
  const running = [{ fairGroup: '/', limitKeys: ['a'], jobs: 3 }]
  expect(taken({ lanes, limits, running })).toEqual({ both: 2, free: 1 })
})

test('a job that needs two keys is not starved by jobs that need one of them', () => {
  const lanes = [
    lane('both', { limitKeys: ['a', 'b'], fairGroup: 'w/both' }),
    lane('only a', { limitKeys: ['a'], fairGroup: 'w/a' }),
  ]
  const limits = ['a', 'b'].map((key) => ({ key, slots: 1 }))
  const turns = [{ fairGroup: 'w/a', served: 1 }]
  const running = [{ fairGroup: 'w/b', limitKeys: ['b'], jobs: 1 }]
  // The slot of a that is free is kept for the job that still waits for b.
  expect(taken({ lanes, limits, turns, running })).toEqual({})
  expect(taken({ lanes, limits, turns })).toEqual({ both: 1 })
})

test('memory is shared by weight; what weighs nothing does not wait for it', () => {
  const lanes = [lane('heavy', { memoryMb: 300 }), lane('light', { jobs: 1, place: 500 })]
  expect(taken({ lanes, memoryMbTaken: 350 }, { memoryMb: 1_000 })).toEqual({ heavy: 2, light: 1 })
  expect(taken({ lanes }, { starts: 1 })).toEqual({ heavy: 1, light: 1 })
  expect(taken({ lanes }, { starts: 0 })).toEqual({ light: 1 })
})

test('a big job in turn is not starved by small ones: the memory that comes free is kept for it', () => {
  const lanes = [
    lane('big', { memoryMb: 800, fairGroup: 'w/big' }),
    lane('small', { memoryMb: 100, fairGroup: 'w/small' }),
  ]
  const turns = [{ fairGroup: 'w/small', served: 1 }]
  expect(taken({ lanes, turns, memoryMbTaken: 300 }, { memoryMb: 1_000 })).toEqual({})
  expect(taken({ lanes, turns, memoryMbTaken: 200 }, { memoryMb: 1_000 })).toEqual({ big: 1 })
})

test('a big job that waits for a key as well keeps no memory from others', () => {
  const lanes = [
    lane('big', { memoryMb: 800, fairGroup: 'w/big', limitKeys: ['full'] }),
    lane('small', { memoryMb: 100, fairGroup: 'w/small' }),
  ]
  const running = [{ fairGroup: 'w/other', limitKeys: ['full'], jobs: 1 }]
  const limits = [{ key: 'full', slots: 1 }]
  const room = { memoryMb: 1_000 }
  expect(taken({ lanes, running, limits, memoryMbTaken: 300 }, room)).toEqual({ small: 7 })
})

test('a job that weighs more than the whole host runs there alone', () => {
  const lanes = [lane('huge', { memoryMb: 5_000 })]
  expect(taken({ lanes }, { memoryMb: 1_000 })).toEqual({ huge: 1 })
  expect(taken({ lanes, memoryMbTaken: 1 }, { memoryMb: 1_000 })).toEqual({})
})

const KEYS = ['a', 'b', '__proto__', '']
const laneOf = fc.record({
  priority: fc.integer({ min: -2, max: 2 }),
  fairGroup: fc.constantFrom('/', 'w/1', 'w/2', 'v/1', 'w//', '__proto__/x'),
  limitKeys: fc.uniqueArray(fc.constantFrom(...KEYS)),
  memoryMb: fc.constantFrom(0, 0, 100, 400, 5_000),
  jobs: fc.integer({ min: 0, max: 6 }),
})
const queueOf = fc.record({
  lanes: fc.array(laneOf, { maxLength: 8 }),
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
const roomOf = fc.record({
  slots: fc.integer({ min: 0, max: 20 }),
  starts: fc.integer({ min: 0, max: 5 }),
  memoryMb: fc.constantFrom(1_000, Number.POSITIVE_INFINITY),
})

const holds = (limitKeys: readonly string[], key: string): boolean => limitKeys.includes(key)
const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)

test('whatever waits and runs, nothing is given away twice and nothing that does not exist', () => {
  fc.assert(
    fc.property(queueOf, roomOf, (drawn, room) => {
      const lanes = drawn.lanes.map((draft, i) => lane(String(i), { ...draft, place: i * 100 }))
      const { lanes: counts } = admit({ ...drawn, lanes, turns: [] }, room)
      const started = lanes.flatMap((each) => Array.from({ length: counts.get(each.lane) ?? 0 }, () => each))
      expect(started.length).toBeLessThanOrEqual(room.slots)
      for (const each of lanes) expect(counts.get(each.lane) ?? 0).toBeLessThanOrEqual(each.places.length)
      keepsLimits(drawn, started)
      keepsMemory(drawn, room, started)
    }),
    { numRuns: 2_000 },
  )
})

function keepsLimits({ limits, running }: Pick<Queue, 'limits' | 'running'>, started: Lane[]): void {
  for (const { key, slots } of limits) {
    const before = sum(running.filter((each) => holds(each.limitKeys, key)).map((each) => each.jobs))
    const more = started.filter((each) => holds(each.limitKeys, key)).length
    expect(more).toBeLessThanOrEqual(Math.max(0, slots - before))
  }
}

function keepsMemory({ memoryMbTaken }: Pick<Queue, 'memoryMbTaken'>, room: Room, started: Lane[]): void {
  const heavy = started.map((each) => each.memoryMb).filter((memoryMb) => memoryMb > 0)
  expect(heavy.length).toBeLessThanOrEqual(room.starts)
  const alone = heavy.length === 1 && memoryMbTaken === 0
  if (heavy.length > 0 && !alone) expect(memoryMbTaken + sum(heavy)).toBeLessThanOrEqual(room.memoryMb)
}
