import { expect, test } from 'vitest'
import { isExcluded } from './artifact-archive.ts'

test.each([
  ['pages/a.tmp', '*.tmp', true],
  ['pages/deep/a.tmp', '*.tmp', true],
  ['pages/a.txt', '*.tmp', false],
  ['pages/cache/a', 'cache', true],
  ['pages/cache/a', 'cache/', true],
  ['pages/cached/a', 'cache', false],
  ['pages/a/b/c', 'a/*/c', true],
  ['pages/a/b/x/c', 'a/*/c', true],
  ['pages/a1', 'a[0-9]', true],
  ['pages/ax', 'a[!0-9]', true],
  ['pages/ax', 'a[0-9]', false],
  ['pages/a-', 'a[0-9]', false],
  ['pages/a-', 'a[0-9-]', true],
  ['pages/a]', 'a[]]', true],
  ['pages/a*', 'a\\*', true],
  ['pages/ab', 'a\\*', false],
  ['pages/ab', 'a?', true],
  ['pages/a[', 'a[', true],
  ['pages', 'pages', true],
  ['pages/x', '', false],
])('%s is excluded by %s: %s', (path, pattern, excluded) => {
  expect(isExcluded(path, [pattern])).toBe(excluded)
})

test('a pattern built for catastrophic backtracking is matched quickly', () => {
  const started = performance.now()
  expect(isExcluded('a'.repeat(4000), [`${'*a'.repeat(50)}b`])).toBe(false)
  expect(performance.now() - started).toBeLessThan(1000)
})
