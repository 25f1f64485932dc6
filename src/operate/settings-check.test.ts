import { expect, test } from 'vitest'
import { distance } from './doctor.ts'

test.each([
  ['', '', 0],
  ['', 'abc', 3],
  ['abc', '', 3],
  ['kitten', 'sitting', 3],
  ['ASSAY_POTR', 'ASSAY_PORT', 2],
  ['ASSAY_LOGS', 'ASSAY_LOG', 1],
])('from %s to %s it is %i letters', (from, to, letters) => {
  expect(distance(from, to)).toBe(letters)
})
