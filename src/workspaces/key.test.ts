import { crc32 } from 'node:zlib'
import { expect, test } from 'vitest'
import { isKey, newKey } from './key.ts'

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

test('the checksum is the CRC32 of the first 38 characters as six base62 digits', () => {
  const key = newKey()
  const digits = [...key.slice(38)].map((digit) => ALPHABET.indexOf(digit))
  expect(digits.reduce((value, digit) => value * 62 + digit, 0)).toBe(crc32(key.slice(0, 38)))
  expect(key).toMatch(/^assay_[0-9A-Za-z]{38}$/)
})

test('a known key has its known checksum, leading zeros included', () => {
  const zeros = `assay_${'0'.repeat(32)}`
  expect(isKey(zeros + checksumOf(zeros))).toBe(true)
  const small = Array.from({ length: 200_000 }, (_, n) => `assay_${String(n).padStart(32, '0')}`).find(
    (text) => crc32(text) < 62 ** 4,
  )
  expect(small && checksumOf(small).startsWith('00') && isKey(small + checksumOf(small))).toBe(true)
})

test('detects a single changed character', () => {
  const key = newKey()
  for (let place = 0; place < key.length; place++) {
    const other = key[place] === 'x' ? 'y' : 'x'
    expect(isKey(key.slice(0, place) + other + key.slice(place + 1))).toBe(false)
  }
})

test.each(['', 'assay_', 'assay_short', `${newKey()}0`, ` ${newKey()}`, newKey().toLowerCase().slice(0, 43), 'ässay_'])(
  'rejects %j as a key',
  (text) => {
    expect(isKey(text)).toBe(false)
  },
)

test('keys are unique', () => {
  expect(new Set(Array.from({ length: 10_000 }, newKey)).size).toBe(10_000)
})

function checksumOf(text: string): string {
  return [5, 4, 3, 2, 1, 0].map((place) => ALPHABET[Math.floor(crc32(text) / 62 ** place) % 62]).join('')
}
