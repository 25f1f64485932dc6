import type { Usage } from './wire.ts'

/** US dollars per million tokens, which are micro-dollars per token. Read as it is written, digit by digit. */
type Price = string | number

/** One that is left out is unknown. */
type TokenPrices = {
  input: Price
  output: Price
  cacheRead?: Price | undefined
  cacheWrite5m?: Price | undefined
  /** Twice the input where it is left out: so does who has such a price. */
  cacheWrite1h?: Price | undefined
}

export type Prices = TokenPrices & {
  /** Above so many tokens of input, cached ones among them, the whole call has other prices. */
  tiers?: readonly (TokenPrices & { aboveInputTokens: number })[] | undefined
  /** What a service tier of the provider makes of every price. */
  tierMultipliers?: Readonly<Record<string, Price>> | undefined
}

// A decimal is kept as an integer with so many places. A finer price than this is no price.
const PLACES = 18
const ONE = 10n ** BigInt(PLACES)
// A price times a multiplier has twice the places.
const MICRO = ONE * ONE

/** Rounded once, half up. Null: a price is missing that this call needs. That is never the same as nothing. */
export function costMicros(usage: Usage, prices: Prices, serviceTier: string | null = null): number | null {
  const cost = exactCost(usage, prices, serviceTier)
  return cost === null ? null : Number((2n * cost + MICRO) / (2n * MICRO))
}

/** Before it is rounded, in parts of a micro-dollar: 10^36 of them make one. */
export function exactCost(usage: Usage, prices: Prices, serviceTier: string | null = null): bigint | null {
  const multiplier = multiplierOf(prices, serviceTier)
  if (multiplier === null) return null
  const own = pricesFor(prices, inputOf(usage))
  const input = decimal(own.input)
  const long = own.cacheWrite1h === undefined ? input && 2n * input : decimal(own.cacheWrite1h)
  const sum = total([
    [usage.input, input],
    [usage.cacheRead, decimal(own.cacheRead)],
    [usage.cacheWrite5m, decimal(own.cacheWrite5m)],
    [usage.cacheWrite1h, long],
    // What was thought is in it.
    [usage.output, decimal(own.output)],
  ])
  return sum === null ? null : sum * multiplier
}

/** A price is needed only for tokens that were used. */
function total(classes: readonly [tokens: number, price: bigint | null][]): bigint | null {
  let sum = 0n
  for (const [tokens, price] of classes) {
    if (tokens === 0) continue
    if (price === null) return null
    sum += BigInt(tokens) * price
  }
  return sum
}

const inputOf = ({ input, cacheRead, cacheWrite5m, cacheWrite1h }: Usage): number =>
  input + cacheRead + cacheWrite5m + cacheWrite1h

const pricesFor = (prices: Prices, input: number): TokenPrices =>
  (prices.tiers ?? [])
    .filter(({ aboveInputTokens }) => input > aboveInputTokens)
    .reduce<TokenPrices & { aboveInputTokens: number }>(
      (highest, tier) => (tier.aboveInputTokens >= highest.aboveInputTokens ? tier : highest),
      { ...prices, aboveInputTokens: -1 },
    )

// What providers call that which costs what is printed.
const ORDINARY = ['standard', 'default', 'auto', 'on_demand']

function multiplierOf({ tierMultipliers = {} }: Prices, serviceTier: string | null): bigint | null {
  if (serviceTier === null) return ONE
  if (Object.hasOwn(tierMultipliers, serviceTier)) return decimal(tierMultipliers[serviceTier])
  return ORDINARY.includes(serviceTier) ? ONE : null
}

const DECIMAL = /^(\d{1,15})(?:\.(\d+))?(?:e([+-]?\d{1,2}))?$/i

/** Null: it is not there, not a decimal, or has more places than we keep. */
function decimal(price: Price | undefined): bigint | null {
  const [, whole, fraction = '', exponent] = DECIMAL.exec(String(price)) ?? []
  if (whole === undefined) return null
  const digits = fraction.replace(/0+$/, '')
  const places = PLACES - digits.length + Number(exponent ?? 0)
  return places < 0 ? null : BigInt(whole + digits) * 10n ** BigInt(places)
}
