import { expect, test } from 'vitest'
import { SandboxUnavailable } from '../sandbox.ts'
import { withDeadline } from './namespace-process.ts'

test('a result in time is passed on, and so is a failure', async () => {
  const never = () => 'not called'
  expect(await withDeadline(Promise.resolve(3), 10_000, never)).toBe(3)
  await expect(withDeadline(Promise.reject(new Error('its own')), 10_000, never)).rejects.toThrow('its own')
})

test('work that exceeds its deadline fails as a sandbox failure and is aborted', async () => {
  let isStopped = false
  const onLate = () => {
    isStopped = true
    return 'It did not end.'
  }
  const late = withDeadline(new Promise(() => {}), 1, onLate)
  await expect(late).rejects.toThrow(new SandboxUnavailable('It did not end.'))
  expect(isStopped).toBe(true)
})
