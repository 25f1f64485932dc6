import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type CallPrices, computeCostMicros, computeExactCost } from './price.ts'
import type { Usage } from './wire-protocol.ts'

const NOTHING: Usage = { input: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 0, reasoning: 0 }
const usage = (used: Partial<Usage>): Usage => ({ ...NOTHING, ...used })

const PRICES = { input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75 }
const LONG = {
  ...PRICES,
  tiers: [{ aboveInputTokens: 200_000, input: 6, output: 22.5, cacheRead: 0.6, cacheWrite5m: 7.5 }],
}

describe('one call', () => {
  test.each<[string, Partial<Usage>, CallPrices, number | null]>([
    ['nothing', {}, PRICES, 0],
    [
      'every class',
      { input: 1000, cacheRead: 1000, cacheWrite5m: 1000, cacheWrite1h: 1000, output: 1000 },
      PRICES,
      28_050,
    ],
    ['reasoning, which is in the output', { output: 100, reasoning: 100 }, PRICES, 1500],
    ['an hour, given', { cacheWrite1h: 10 }, { ...PRICES, cacheWrite1h: '7' }, 70],
    ['half a micro-dollar', { cacheRead: 5 }, { ...PRICES, cacheRead: '0.1' }, 1],
    ['just less than half', { cacheRead: 4 }, { ...PRICES, cacheRead: '0.1249999' }, 0],
    ['a price with many places', { input: 1_000_000 }, { input: 0.0000012, output: 1 }, 1],
    ['a price as a number', { input: 1_000_000 }, { input: 1.2e-7, output: 1 }, 0],
    ['up to the threshold', { input: 100_000, cacheRead: 100_000 }, LONG, 330_000],
    ['above the threshold', { input: 100_001, cacheRead: 100_000, output: 10 }, LONG, 660_231],
    ['an hour, left out', { cacheWrite1h: 10 }, { input: 3, output: 1 }, 60],
    ['no price for reading', { cacheRead: 1 }, { input: 1, output: 1 }, null],
    ['no price for writing', { cacheWrite5m: 1 }, { input: 1, output: 1 }, null],
    [
      'no price above the threshold',
      { input: 2, cacheRead: 2 },
      { ...PRICES, tiers: [{ aboveInputTokens: 1, input: 1, output: 1 }] },
      null,
    ],
    ['a price that is none', { input: 1 }, { input: 'free', output: 1 }, null],
    ['a negative price', { input: 1 }, { input: -1, output: 1 }, null],
    ['no number', { input: 1 }, { input: Number.NaN, output: 1 }, null],
    ['a price that is too fine', { input: 1 }, { input: '0.0000000000000000001', output: 1 }, null],
  ])('%s', (_, used, prices, micros) => {
    expect(computeCostMicros(usage(used), prices)).toBe(micros)
  })

  test.each<[string | null, number | null]>([
    [null, 1000],
    ['standard', 1000],
    ['default', 1000],
    ['auto', 1000],
    ['on_demand', 1000],
    ['', null],
    ['flex', 500],
    ['priority', 2000],
    ['constructor', null],
    ['unheard of', null],
  ])('service tier %s', (tier, micros) => {
    const prices = { input: 1, output: 1, tierMultipliers: { flex: 0.5, priority: '2' } }
    expect(computeCostMicros(usage({ input: 1000 }), prices, tier)).toBe(micros)
  })

  test('applies the higher of two tiers, in any order', () => {
    const tiers = [10, 20].map((aboveInputTokens) => ({ aboveInputTokens, input: aboveInputTokens, output: 1 }))
    for (const each of [tiers, tiers.toReversed()]) {
      const prices = { input: 1, output: 1, tiers: each }
      expect([10, 11, 20, 21].map((input) => computeCostMicros(usage({ input }), prices))).toEqual([10, 110, 200, 420])
    }
  })
})

describe('a price as text', () => {
  test.each<[price: string | number, micros: number | null]>([
    ['1', 1_000_000],
    ['0', 0],
    ['2.5', 2_500_000],
    ['2.50', 2_500_000],
    ['0.000001', 1],
    ['1e-6', 1],
    ['1E-6', 1],
    ['12e-1', 1_200_000],
    ['1.5e+1', 15_000_000],
    ['1e2', 100_000_000],
    ['999999999', 999_999_999_000_000],
    ['999999999999999e-6', 999_999_999_999_999],
    ['9999999999999999e-7', null],
    [`1.${'0'.repeat(30)}`, 1_000_000],
    ['0.000000000000000001', 0],
    ['0.0000000000000000001', null],
    ['1e-18', 0],
    ['1e-19', null],
    ['10e-19', null],
    ['1.5e-17', 0],
    ['1.5e-18', null],
    ['1e100', null],
    ['', null],
    ['.5', null],
    ['1.', null],
    ['1.e1', null],
    ['1e', null],
    ['1e+', null],
    ['+1', null],
    ['-1', null],
    ['1,5', null],
    [' 1', null],
    ['1 ', null],
    ['1x5', null],
    ['0x10', null],
    ['Infinity', null],
    [1e-7, 0],
    [5e-7, 1],
  ])('%j for a million tokens of input makes %j micro-dollars', (input, micros) => {
    expect(computeCostMicros(usage({ input: 1_000_000 }), { input, output: 1 })).toBe(micros)
  })

  test('is exact to 18 places: a token at 1e-18 costs one of 10^18 parts of a micro-dollar', () => {
    expect(computeExactCost(usage({ input: 1 }), { input: '0.000000000000000001', output: 0 })).toBe(10n ** 18n)
    expect(computeExactCost(usage({ input: 3 }), { input: '2', output: 0 })).toBe(6n * 10n ** 36n)
  })
})

describe('a call that needs an unknown price', () => {
  test.each<[string, Partial<Usage>, CallPrices, string | null]>([
    ['input', { input: 1 }, { input: '?', output: 1 }, null],
    ['output', { output: 1 }, { input: 1, output: '?' }, null],
    ['a write for an hour at twice the unknown input', { cacheWrite1h: 1 }, { input: '?', output: 1 }, null],
    ['a write for an hour', { cacheWrite1h: 1 }, { input: 1, output: 1, cacheWrite1h: '?' }, null],
    ['a service tier', {}, { input: 1, output: 1 }, 'fast'],
    ['the multiplier of a service tier', {}, { input: 1, output: 1, tierMultipliers: { fast: '?' } }, 'fast'],
  ])('%s has an unknown cost', (_, used, prices, tier) => {
    expect(computeExactCost(usage(used), prices, tier)).toBeNull()
    expect(computeCostMicros(usage(used), prices, tier)).toBeNull()
  })

  test('has a known cost if no token has that price', () => {
    const prices = { input: '?', output: 2, cacheRead: '?', cacheWrite5m: '?', cacheWrite1h: '?' }
    expect(computeCostMicros(usage({ output: 3 }), prices)).toBe(6)
  })
})

describe('the price tier of a call', () => {
  const prices = {
    ...PRICES,
    tiers: [{ aboveInputTokens: 100, input: 10, output: 10, cacheRead: 10, cacheWrite5m: 10, cacheWrite1h: 10 }],
  }

  test.each<keyof Usage>(['input', 'cacheRead', 'cacheWrite5m', 'cacheWrite1h'])('counts tokens of %s', (kind) => {
    const others = { input: 20, cacheRead: 20, cacheWrite5m: 20, cacheWrite1h: 20 }
    expect(computeCostMicros(usage({ ...others, [kind]: 41 }), prices)).toBe(1010)
    expect(computeCostMicros(usage({ ...others, [kind]: 40 }), prices)).not.toBe(1000)
  })

  test('does not count tokens of output', () => {
    expect(computeCostMicros(usage({ output: 1000 }), prices)).toBe(15_000)
  })

  test('is the last of two with the same threshold', () => {
    const tiers = [7, 8].map((input) => ({ aboveInputTokens: 1, input, output: 1 }))
    expect(computeCostMicros(usage({ input: 2 }), { input: 1, output: 1, tiers })).toBe(16)
  })

  test('may begin with the first token', () => {
    const tiers = [{ aboveInputTokens: 0, input: 7, output: 1 }]
    expect(computeCostMicros(usage({ input: 1 }), { input: 1, output: 1, tiers })).toBe(7)
  })

  test('is multiplied by the service tier like any other price', () => {
    expect(
      computeCostMicros(usage({ input: 101 }), { ...prices, tierMultipliers: { flex: '0.5', auto: '3' } }, 'flex'),
    ).toBe(505)
    expect(
      computeCostMicros(usage({ input: 100 }), { ...prices, tierMultipliers: { flex: '0.5', auto: '3' } }, 'auto'),
    ).toBe(900)
  })
})

describe('for any calls', () => {
  const count = fc.integer({ min: 0, max: 10_000_000 })
  const calls = fc.record({
    input: count,
    cacheRead: count,
    cacheWrite5m: count,
    cacheWrite1h: count,
    output: count,
    reasoning: fc.constant(0),
  })
  // Thousandths of a dollar, as decimals are written.
  const thousandths = fc.integer({ min: 0, max: 100_000 })
  const written = (price: number): string => `${Math.floor(price / 1000)}.${String(price % 1000).padStart(3, '0')}`

  test('the cost is exact', () => {
    fc.assert(
      fc.property(calls, fc.tuple(thousandths, thousandths, thousandths, thousandths, thousandths), (used, all) => {
        const [input, cacheRead, cacheWrite5m, cacheWrite1h, output] = all
        const texts = { input, cacheRead, cacheWrite5m, cacheWrite1h, output }
        const prices = Object.fromEntries(Object.entries(texts).map(([name, price]) => [name, written(price)]))
        const thousandth =
          BigInt(used.input) * BigInt(input) +
          BigInt(used.cacheRead) * BigInt(cacheRead) +
          BigInt(used.cacheWrite5m) * BigInt(cacheWrite5m) +
          BigInt(used.cacheWrite1h) * BigInt(cacheWrite1h) +
          BigInt(used.output) * BigInt(output)
        const expected = Number((thousandth + 500n) / 1000n)
        expect(computeCostMicros(used, { input: '0', output: '0', ...prices })).toBe(expected)
        // A number is read as it is written, too.
        const numbers = Object.fromEntries(Object.entries(prices).map(([name, price]) => [name, Number(price)]))
        expect(computeCostMicros(used, { input: 0, output: 0, ...numbers })).toBe(expected)
      }),
    )
  })

  test('costs add up exactly before rounding', () => {
    fc.assert(
      fc.property(calls, calls, (one, other) => {
        const both = usage({
          input: one.input + other.input,
          cacheRead: one.cacheRead + other.cacheRead,
          cacheWrite5m: one.cacheWrite5m + other.cacheWrite5m,
          cacheWrite1h: one.cacheWrite1h + other.cacheWrite1h,
          output: one.output + other.output,
        })
        const sum = (computeExactCost(one, PRICES) ?? 0n) + (computeExactCost(other, PRICES) ?? 0n)
        expect(computeExactCost(both, PRICES)).toBe(sum)
      }),
    )
  })

  test('more tokens never cost less', () => {
    fc.assert(
      fc.property(calls, calls, (used, more) => {
        const after = usage({ ...used, input: used.input + more.input, output: used.output + more.output })
        expect(computeCostMicros(after, LONG)).toBeGreaterThanOrEqual(computeCostMicros(used, LONG) ?? Number.NaN)
      }),
    )
  })
})
