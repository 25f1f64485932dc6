import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createGenerator, drawBelow } from './frontier.ts'

const first = (seed: string) => Array.from({ length: 5 }, createGenerator(seed))

test.each<[seed: string, numbers: number[]]>([
  [
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    [3_438_951_106, 1_215_945_490, 3_533_754_447, 3_672_526_462, 3_371_690_394],
  ],
  ['0'.repeat(64), [1_363_572_419, 145_230_303, 808_754_475, 4_216_505_632, 947_923_937]],
  ['f'.repeat(64), [4_273_276_651, 3_768_204_794, 412_274_996, 163_292_757, 66_647_681]],
])('the seed %s gives the reference numbers of sfc32', (seed, numbers) => {
  expect(first(seed)).toEqual(numbers)
})

test('each of the first twelve bytes of the seed affects the numbers', () => {
  const seen = new Set(
    Array.from({ length: 12 }, (_, byte) => {
      const digits = [...'0'.repeat(64)]
      digits[2 * byte] = '1'
      return first(digits.join('')).join()
    }),
  )
  expect(seen.size).toBe(12)
})

test('drawing below a count gives each integer an equal part of the range', () => {
  fc.assert(
    fc.property(fc.nat(2 ** 32 - 1), fc.integer({ min: 1, max: 1000 }), (next, count) => {
      const found = drawBelow(() => next, count)
      expect(found).toBe(Number((BigInt(next) * BigInt(count)) >> 32n))
    }),
  )
  expect(drawBelow(() => 2 ** 32 - 1, 7)).toBe(6)
  expect(drawBelow(() => 0, 7)).toBe(0)
})
