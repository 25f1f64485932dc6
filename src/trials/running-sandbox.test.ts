import { expect, test } from 'vitest'
import { type HealthcheckPolicy, pollHealth } from './running-sandbox.ts'

const quick: HealthcheckPolicy = { intervalSec: 0, timeoutSec: 1, startPeriodSec: 0, startIntervalSec: 0, retries: 3 }

/** Returns a probe that fails the given number of times and then succeeds. */
function failing(times: number) {
  let asked = 0
  return { probe: async () => ++asked > times, asked: () => asked }
}

const never = new AbortController().signal

test.each([
  [0, true, 1],
  [2, true, 3],
  [3, false, 3],
])('after %i failures the healthcheck returns %s', async (times, healthy, asked) => {
  const checks = failing(times)
  expect(await pollHealth(checks.probe, quick, never)).toBe(healthy)
  expect(checks.asked()).toBe(asked)
})

test('failures during the start period do not count', async () => {
  const checks = failing(20)
  expect(await pollHealth(checks.probe, { ...quick, startPeriodSec: 60, retries: 1 }, never)).toBe(true)
  expect(checks.asked()).toBe(21)
})

test('an abort ends the polling', async () => {
  const abort = new AbortController()
  const asked = pollHealth(async () => false, { ...quick, intervalSec: 3600, retries: 99 }, abort.signal)
  abort.abort()
  await expect(asked).rejects.toThrow(/abort/i)
})
