import { expect, test } from 'vitest'
import { WrongUse } from './failure.ts'
import { parseExpiry } from './keys.ts'

const NOW = new Date('2026-02-27T12:00:00Z')

test.each([
  ['12h', '2026-02-28T00:00:00.000Z'],
  ['30d', '2026-03-29T12:00:00.000Z'],
  ['2w', '2026-03-13T12:00:00.000Z'],
  ['2030-12-31', '2030-12-31T00:00:00.000Z'],
  ['2030-12-31T10:00Z', '2030-12-31T10:00:00.000Z'],
  ['2030-12-31T10:00:00+02:00', '2030-12-31T08:00:00.000Z'],
])('%s is %s', (text, at) => {
  expect(parseExpiry(text, NOW)).toBe(at)
})

test.each(['', '30', 'd', '30m', '-3d', 'tomorrow', '2030-13-01', '2030-02-30', '2030-12-31T10:00', '999999999d'])(
  '%s is refused',
  (text) => {
    expect(() => parseExpiry(text, NOW)).toThrow(WrongUse)
  },
)
