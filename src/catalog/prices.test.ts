import { describe, expect, test } from 'vitest'
import { DatedPrices, findPricesAt, Prices } from './model.ts'

const RATES = { input: 1, output: 2, cacheRead: 0.1, cacheWrite5m: 1.25, cacheWrite1h: 2 }
const TIER = { aboveInputTokens: 200_000, ...RATES }

describe('prices', () => {
  test.each<[string, unknown]>([
    ['input and output alone', { input: 1, output: 2 }],
    ['every rate and a tier', { ...RATES, tiers: [TIER] }],
    ['rates of zero', { input: 0, output: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0 }],
    ['a tier above one token', { ...RATES, tiers: [{ ...TIER, aboveInputTokens: 1 }] }],
    ['no tiers', { ...RATES, tiers: [] }],
  ])('%s are accepted as they are', (_, prices) => {
    expect(Prices.parse(prices)).toEqual(prices)
  })

  test.each<[string, unknown]>([
    ['without input', { output: 1 }],
    ['without output', { input: 1 }],
    ...Object.keys(RATES).map((name): [string, unknown] => [`with a negative ${name}`, { ...RATES, [name]: -0.01 }]),
    ['with a name that is not known', { ...RATES, request: 1 }],
    ['as text', { ...RATES, input: '1' }],
    ['with a tier above no token', { ...RATES, tiers: [{ ...TIER, aboveInputTokens: 0 }] }],
    ['with a tier above half a token', { ...RATES, tiers: [{ ...TIER, aboveInputTokens: 1.5 }] }],
    ['with a tier that has no threshold', { ...RATES, tiers: [RATES] }],
    ['with a tier that has another name', { ...RATES, tiers: [{ ...TIER, request: 1 }] }],
    ['with a tier that has no output', { ...RATES, tiers: [{ aboveInputTokens: 1, input: 1 }] }],
  ])('%s are refused', (_, prices) => {
    expect(Prices.safeParse(prices).success).toBe(false)
  })

  test('with a date are valid from that day on', () => {
    for (const validFrom of [null, '2026-02-28'])
      expect(DatedPrices.parse({ validFrom, prices: RATES })).toEqual({ validFrom, prices: RATES })
    for (const validFrom of [undefined, 'soon', '2026-02-30', 20260228])
      expect(DatedPrices.safeParse({ validFrom, prices: RATES }).success).toBe(false)
    expect(DatedPrices.safeParse({ validFrom: null, prices: RATES, note: '' }).success).toBe(false)
  })
})

describe('prices of a moment', () => {
  const dated = (validFrom: string | null, input: number) => ({ validFrom, prices: { input, output: 1 } })
  const list = [dated(null, 1), dated('2026-03-01', 2), dated('2026-06-01', 3)]

  test.each<[at: string, input: number]>([
    ['1950-01-01T00:00:00Z', 1],
    ['2025-01-01T00:00:00Z', 1],
    ['2026-02-28T23:59:59.999Z', 1],
    ['2026-03-01T00:00:00.000Z', 2],
    ['2026-05-31T23:59:59.999Z', 2],
    ['2026-06-01T00:00:00.000Z', 3],
    ['2030-01-01T00:00:00Z', 3],
  ])('at %s the input costs %i', (at, input) => {
    expect(findPricesAt(list, new Date(at))?.input).toBe(input)
  })

  test('are unknown before the first date and for an empty list', () => {
    expect(findPricesAt([dated('2026-03-01', 2)], new Date('2026-02-01'))).toBeUndefined()
    expect(findPricesAt([], new Date())).toBeUndefined()
  })
})
