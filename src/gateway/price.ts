import { sumInputTokens, type Usage } from './wire-protocol.ts'

/** Price in US dollars per million tokens, which equals micro-dollars per token. Parsed as a decimal, without rounding. */
type Price = string | number

/** Prices by token class. An omitted price is unknown. */
type TokenPrices = {
  input: Price
  output: Price
  cacheRead?: Price | undefined
  cacheWrite5m?: Price | undefined
  /** Defaults to twice the input price, as with every provider that has such a price. */
  cacheWrite1h?: Price | undefined
}

export type CallPrices = TokenPrices & {
  /** Prices of the whole call above a number of input tokens, cached ones included. */
  tiers?: readonly (TokenPrices & { aboveInputTokens: number })[] | undefined
  /** Factor for all prices, by service tier. */
  tierMultipliers?: Readonly<Record<string, Price>> | undefined
}

/** Decimals are computed as integers with this many decimal places. A price with more places is invalid. */
const DECIMAL_PLACES = 18
const ONE = 10n ** BigInt(DECIMAL_PLACES)
/** Value of a micro-dollar in costs before rounding, which are products of two decimals and have twice as many places. */
const MICRO = ONE * ONE

/** Returns the cost, rounded half up once at the end, or null if a price that the call needs is unknown. */
export function computeCostMicros(usage: Usage, prices: CallPrices, serviceTier: string | null = null): number | null {
  const cost = computeExactCost(usage, prices, serviceTier)
  return cost === null ? null : Number((2n * cost + MICRO) / (2n * MICRO))
}

/** Returns the cost before rounding, in units of 10^-36 micro-dollars. */
export function computeExactCost(usage: Usage, prices: CallPrices, serviceTier: string | null = null): bigint | null {
  const multiplier = findMultiplier(prices, serviceTier)
  if (multiplier === null) return null
  const applicable = selectPrices(prices, sumInputTokens(usage))
  const input = parsePrice(applicable.input)
  const doubleInput = input === null ? null : 2n * input
  const sum = sumCosts([
    [usage.input, input],
    [usage.cacheRead, parsePrice(applicable.cacheRead)],
    [usage.cacheWrite5m, parsePrice(applicable.cacheWrite5m)],
    [usage.cacheWrite1h, applicable.cacheWrite1h === undefined ? doubleInput : parsePrice(applicable.cacheWrite1h)],
    // Reasoning is part of the output.
    [usage.output, parsePrice(applicable.output)],
  ])
  return sum === null ? null : sum * multiplier
}

/** Sums tokens times price. Returns null if a class with tokens has no price. */
function sumCosts(classes: readonly [tokens: number, price: bigint | null][]): bigint | null {
  let sum = 0n
  for (const [tokens, price] of classes) {
    if (tokens === 0) continue
    if (price === null) return null
    sum += BigInt(tokens) * price
  }
  return sum
}

/** Returns the prices of the highest tier that the input tokens reach, or the base prices. */
function selectPrices(prices: CallPrices, inputTokens: number): TokenPrices {
  const reached = (prices.tiers ?? []).filter(({ aboveInputTokens }) => inputTokens > aboveInputTokens)
  return reached.toSorted((one, other) => one.aboveInputTokens - other.aboveInputTokens).at(-1) ?? prices
}

/** Names of service tiers that are billed at the list price. */
const LIST_PRICE_TIERS = ['standard', 'default', 'auto', 'on_demand']

/** Returns the factor for a service tier, as an integer with `DECIMAL_PLACES`, or null if it is unknown. */
function findMultiplier({ tierMultipliers = {} }: CallPrices, serviceTier: string | null): bigint | null {
  if (serviceTier === null) return ONE
  if (Object.hasOwn(tierMultipliers, serviceTier)) return parsePrice(tierMultipliers[serviceTier])
  return LIST_PRICE_TIERS.includes(serviceTier) ? ONE : null
}

/** Matches a decimal: its whole part, fraction and exponent. */
const DECIMAL = /^(\d{1,15})(?:\.(\d+))?(?:e([+-]?\d{1,2}))?$/i

/**
 * Parses a price as an integer with `DECIMAL_PLACES`. Returns null if it is missing, not a decimal, or has more
 * places.
 */
function parsePrice(price: Price | undefined): bigint | null {
  const [, whole, fraction = '', exponent] = DECIMAL.exec(String(price)) ?? []
  if (whole === undefined) return null
  const digits = fraction.replace(/0+$/, '')
  const places = DECIMAL_PLACES - digits.length + Number(exponent ?? 0)
  return places < 0 ? null : BigInt(whole + digits) * 10n ** BigInt(places)
}
