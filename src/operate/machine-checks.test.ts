import { expect, test } from 'vitest'
import { diagnoseWatches } from './machine-checks.ts'

const GIB = 1024 ** 3

test('warns if sandboxes have enough memory to take every epoll watch, and names the value to set', () => {
  expect(diagnoseWatches(1_000_000, GIB)).toMatchObject({
    ok: false,
    required: false,
    fix: 'sysctl -w fs.epoll.max_user_watches=5368710, and the same in /etc/sysctl.d.',
  })
})

test('accepts a number of epoll watches that needs more than the memory of the machine', () => {
  expect(diagnoseWatches(5_368_710, GIB)).toMatchObject({ ok: true })
})
