import { describe, expect, test } from 'vitest'
import { computeRetryPauseMs, isRetryable } from './retry-policy.ts'

const OPTIONS = { triesMax: 4, totalMs: 60_000, firstMs: 1000, pauseMaxMs: 20_000, quietMs: 30_000 }
const NOW = Date.parse('2026-11-15T10:00:00Z')
const FAILED = { status: 500, tries: 1, elapsedMs: 0, headers: {}, now: NOW, random: 1 }

test.each([429, 500, 502, 503, 504, 529])('status %i is tried again', (status) => {
  expect(isRetryable(status)).toBe(true)
})

test.each([200, 400, 401, 404, 408, 501, 505, 528])('status %i is not tried again', (status) => {
  expect(isRetryable(status)).toBe(false)
})

describe('limits of the pause', () => {
  test.each<[string, Partial<typeof FAILED> & { headers?: Record<string, string | string[]> }, number | undefined]>([
    ['a pause of exactly the maximum is waited for', { headers: { 'retry-after': '20' } }, 20_000],
    ['a pause of a millisecond more is not', { headers: { 'retry-after-ms': '20001' } }, undefined],
    ['a pause that ends exactly with the total time is waited for', { elapsedMs: 59_000 }, 1000],
    ['a pause that ends a millisecond later is not', { elapsedMs: 59_001 }, undefined],
    ['the last try of all is allowed', { tries: 3 }, 4000],
    ['there is none after it', { tries: 4 }, undefined],
    ['nor after more tries than allowed', { tries: 5 }, undefined],
    ['half a second of chance at random 0', { tries: 2, random: 0 }, 1000],
    ['three quarters at random 0.5', { tries: 2, random: 0.5 }, 1500],
    ['zero milliseconds are a pause', { headers: { 'retry-after-ms': '0', 'retry-after': '7' } }, 0],
    ['zero seconds are a pause in any notation', { headers: { 'retry-after': '0.0' } }, 0],
    ['an empty Retry-After counts as missing', { headers: { 'retry-after': '' } }, 1000],
    ['a repeated Retry-After counts as missing', { headers: { 'retry-after': ['5', '6'] } }, 1000],
    ['a negative number of seconds is read as a date that has passed', { headers: { 'retry-after': '-5' } }, 0],
    [
      'a 429 before the last try waits until the quiet time has passed',
      { status: 429, tries: 3, elapsedMs: 3000 },
      27_000,
    ],
    ['a 429 before the last try waits at least its own pause', { status: 429, tries: 3, elapsedMs: 29_000 }, 4000],
    ['a 429 before an earlier try does not wait longer', { status: 429, tries: 2, elapsedMs: 3000 }, 2000],
    ['a broken connection is tried again like a server error', { status: null as never, tries: 3 }, 4000],
  ])('%s', (_, changes, expected) => {
    expect(computeRetryPauseMs(OPTIONS, { ...FAILED, ...changes })).toBe(expected)
  })

  test('the pause doubles only up to the maximum', () => {
    const options = { ...OPTIONS, triesMax: 20 }
    expect(computeRetryPauseMs(options, { ...FAILED, tries: 10 })).toBe(20_000)
    expect(computeRetryPauseMs(options, { ...FAILED, tries: 5 })).toBe(16_000)
  })
})
