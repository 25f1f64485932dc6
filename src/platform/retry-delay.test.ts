import { expect, test } from 'vitest'
import { errorText } from './errors.ts'
import { backoffMs } from './retry-delay.ts'

test.each([
  [1, 1_000],
  [2, 2_000],
  [5, 16_000],
  [9, 256_000],
  [10, 300_000],
  [1_000_000, 300_000],
])('after failure %i the retry delay is about %i ms', (failures, ms) => {
  expect(backoffMs(failures, 0.5)).toBe(ms)
  expect(backoffMs(failures, 0)).toBe(ms * 0.75)
  expect(backoffMs(failures, 1)).toBe(ms * 1.25)
})

test.each([
  [new Error('plain'), 'plain'],
  [new TypeError(''), 'TypeError'],
  [new AggregateError([new Error('connect ECONNREFUSED')]), 'connect ECONNREFUSED'],
  ['a string', 'a string'],
  [undefined, 'undefined'],
])('the text of %o is %s', (thrown, text) => {
  expect(errorText(thrown)).toBe(text)
})
