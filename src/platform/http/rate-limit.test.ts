import { expect, test } from 'vitest'
import { Problem } from '../problem.ts'
import { rateLimiter } from './rate-limit.ts'

test('a caller gets its share, waits, and gets it again; others are not touched', () => {
  let now = 0
  const limiter = rateLimiter({ requests: 2, seconds: 60 }, () => now)
  expect(limiter.take('a').ratelimit).toMatch(/r=1/)
  expect(limiter.take('a').ratelimit).toMatch(/r=0/)
  expect(() => limiter.take('a')).toThrow(Problem)
  expect(limiter.take('b').ratelimit).toMatch(/r=1/)
  now = 30_000
  expect(limiter.take('a').ratelimit).toMatch(/r=0/)
  expect(() => limiter.take('a')).toThrow(Problem)
})

test('a flood of callers does not grow the memory without end', () => {
  const limiter = rateLimiter({ requests: 1, seconds: 60 }, () => 0)
  limiter.take('first')
  for (let n = 0; n < 100_000; n++) limiter.take(`caller ${n}`)
  expect(() => limiter.take('first')).not.toThrow()
})
