import { expect, test } from 'vitest'
import { orderForEviction } from './built-images.ts'

const HOUR = 3_600_000
const use = (digest: string, hoursAgo: number, isShared = false) => ({ digest, isShared, usedAt: -hoursAgo * HOUR })

test('evicts the least recently used image first, and shared ones after all others', () => {
  const uses = [use('shared', 90, true), use('old', 50), use('older', 60), use('shared too', 80, true)]
  expect(orderForEviction(uses, 0).map(({ digest }) => digest)).toEqual(['older', 'old', 'shared', 'shared too'])
})

test('does not evict an image that was used within the last hour', () => {
  expect(orderForEviction([use('recent', 0.9), use('old', 1.1)], 0).map(({ digest }) => digest)).toEqual(['old'])
})
