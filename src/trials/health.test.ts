import { expect, test } from 'vitest'
import { isHealthy, type Patience } from './health.ts'

const quick: Patience = { intervalSec: 0, timeoutSec: 1, startPeriodSec: 0, startIntervalSec: 0, retries: 3 }

/** Fails so many times, then is healthy. */
function failing(times: number) {
  let asked = 0
  return { ask: async () => ++asked > times, asked: () => asked }
}

const never = new AbortController().signal

test.each([
  [0, true, 1],
  [2, true, 3],
  [3, false, 3],
])('after %i failures: %s', async (times, healthy, asked) => {
  const checks = failing(times)
  expect(await isHealthy(checks.ask, quick, never)).toBe(healthy)
  expect(checks.asked()).toBe(asked)
})

test('failures in the start period do not count', async () => {
  const checks = failing(20)
  expect(await isHealthy(checks.ask, { ...quick, startPeriodSec: 60, retries: 1 }, never)).toBe(true)
  expect(checks.asked()).toBe(21)
})

test('an abort ends the waiting', async () => {
  const abort = new AbortController()
  const asked = isHealthy(async () => false, { ...quick, intervalSec: 3600, retries: 99 }, abort.signal)
  abort.abort()
  await expect(asked).rejects.toThrow(/abort/i)
})
