import { expect, test } from 'vitest'
import { findNewestVersion } from './registry-list.ts'

test.each([
  [['1.0', 'head', '2.0'], 'head'],
  [['1.9', '1.10'], '1.10'],
  [['2.0', '1!0.1'], '1!0.1'],
  [['1.0.dev1', '1.0a1', '1.0b1', '1.0rc1'], '1.0rc1'],
  [['1.0rc2', '1.0', '1.0.dev9'], '1.0'],
  [['1.0', '1.0.post1'], '1.0.post1'],
  [['1.0.post1.dev1', '1.0.post1'], '1.0.post1'],
  [['1.0rc1.dev1', '1.0rc1'], '1.0rc1'],
  [['v2', '1.99'], 'v2'],
  [['verified', 'lite', '0.1'], '0.1'],
  [['verified', 'lite'], 'verified'],
])('the newest version of %j is %s, in any order', (versions, newest) => {
  expect(findNewestVersion(versions)).toBe(newest)
  expect(findNewestVersion(versions.toReversed())).toBe(newest)
})

test('has no newest version of an empty list', () => {
  expect(findNewestVersion([])).toBeUndefined()
})
