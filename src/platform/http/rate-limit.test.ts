import { expect, test } from 'vitest'
import { Problem } from '../problem.ts'
import { createRateLimiter } from './rate-limit.ts'

test('a caller that used up its tokens waits for new ones; other callers are unaffected', () => {
  let now = 0
  const limiter = createRateLimiter({ requests: 2, seconds: 60 }, () => now)
  expect(limiter.take('a').ratelimit).toMatch(/r=1/)
  expect(limiter.take('a').ratelimit).toMatch(/r=0/)
  expect(() => limiter.take('a')).toThrow(Problem)
  expect(limiter.take('b').ratelimit).toMatch(/r=1/)
  now = 30_000
  expect(limiter.take('a').ratelimit).toMatch(/r=0/)
  expect(() => limiter.take('a')).toThrow(Problem)
})

test('a flood of callers uses bounded memory', () => {
  const limiter = createRateLimiter({ requests: 1, seconds: 60 }, () => 0)
  limiter.take('first')
  for (let n = 0; n < 100_000; n++) limiter.take(`caller ${n}`)
  expect(() => limiter.take('first')).not.toThrow()
})
