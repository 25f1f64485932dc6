import { expect, test } from 'vitest'
import { classifyConcurrency } from './failure-causes.ts'

const at = (ms: number) => new Date(1_000_000 + ms)
const call = (id: string, from: number, to: number | null) => ({
  id,
  startedAt: at(from),
  settledAt: to === null ? null : at(to),
})
const REFUSED = call('refused', 0, null)

/** The call was refused 100 s after it began; the last 60 s matter. */
const judgeLoad = (calls: ReturnType<typeof call>[]) =>
  classifyConcurrency(calls, { id: 'refused', elapsedMs: 100_000 }, 60_000)

test('the window begins exactly 60 s before the refusal, independent of the local clock', () => {
  expect(judgeLoad([REFUSED, call('other', 0, 40_000)])).toBe('alone')
  expect(judgeLoad([REFUSED, call('other', 0, 40_001)])).toBe('busy')
})

test('nine concurrent calls are a flood, eight are not', () => {
  const others = (count: number) => Array.from({ length: count }, (_, index) => call(`${index}`, 50_000, 60_000))
  expect(judgeLoad([REFUSED, ...others(7)])).toBe('busy')
  expect(judgeLoad([REFUSED, ...others(8)])).toBe('flooding')
})

test('consecutive calls within one millisecond are not concurrent, in any order of the list', () => {
  const chain = Array.from({ length: 30 }, (_, index) => call(`${index}`, 50_000 + index, 50_001 + index))
  expect(judgeLoad([REFUSED, ...chain])).toBe('busy')
  expect(judgeLoad([...chain.toReversed(), REFUSED])).toBe('busy')
})

test('calls that begin when others end are not concurrent, in any order of the list', () => {
  const seven = (name: string, from: number, to: number) =>
    Array.from({ length: 7 }, (_, index) => call(`${name}${index}`, from, to))
  const calls = [REFUSED, ...seven('later', 60_000, 70_000), ...seven('earlier', 50_000, 60_000)]
  expect(judgeLoad(calls)).toBe('busy')
  expect(judgeLoad(calls.toReversed())).toBe('busy')
})

test('a flood between the beginning and the end of the list of calls is noticed in any order', () => {
  const flood = Array.from({ length: 9 }, (_, index) => call(`${index}`, 50_000 + index, 50_100))
  const calls = [call('early', 41_000, 41_500), ...flood, REFUSED, call('late', 99_000, 99_500)]
  expect(judgeLoad(calls)).toBe('flooding')
  expect(judgeLoad(calls.toReversed())).toBe('flooding')
})

test('if the refused call is missing, all calls count', () => {
  expect(judgeLoad([call('other', 0, 10)])).toBe('busy')
  expect(judgeLoad([])).toBe('alone')
})
