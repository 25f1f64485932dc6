import { z } from 'zod'
import type { DatedPrices, Prices } from '../src/catalog/model.ts'

// Schemas of the catalog `genai`. Rates are USD per million tokens.

/** A rate, or rates by the number of input tokens from which they apply. */
const TieredRate = z.union([
  z.number(),
  z.object({ base: z.number(), tiers: z.array(z.object({ start: z.number(), price: z.number() })) }),
])
type TieredRate = z.infer<typeof TieredRate>

const Rates = z.object({
  input_mtok: TieredRate,
  output_mtok: TieredRate,
  cache_read_mtok: TieredRate.optional(),
  cache_write_mtok: TieredRate.optional(),
  cache_write_1h_mtok: TieredRate.optional(),
})

const Constraint = z.discriminatedUnion('type', [
  z.object({ type: z.literal('start_date'), start_date: z.iso.date() }),
  z.object({ type: z.literal('time_of_date') }),
])

export const ModelPrice = z.union([z.array(z.object({ constraint: Constraint.optional(), prices: Rates })), Rates])

/** Returns current and future prices of a dated list. Undefined if prices depend on the hour, which we cannot express. */
export function listCurrentPrices(source: z.infer<typeof ModelPrice>, today: Date): DatedPrices[] | undefined {
  const priceList = Array.isArray(source) ? source : [{ prices: source, constraint: undefined }]
  if (priceList.some(({ constraint }) => constraint?.type === 'time_of_date')) return undefined
  const datedPrices = priceList.map(({ constraint, prices }) => ({
    validFrom: constraint?.type === 'start_date' ? constraint.start_date : null,
    prices: toPrices(prices),
  }))
  const currentIndex = datedPrices.findLastIndex(({ validFrom }) => validFrom === null || new Date(validFrom) <= today)
  if (currentIndex < 0) return datedPrices
  const [current, ...future] = datedPrices.slice(currentIndex)
  return current ? [{ ...current, validFrom: null }, ...future] : []
}

function toPrices(rates: z.infer<typeof Rates>): Prices {
  const starts = new Set(
    Object.values(rates).flatMap((rate) => (typeof rate === 'object' ? rate.tiers.map(({ start }) => start) : [])),
  )
  const tiers = [...starts]
    .sort((a, b) => a - b)
    .map((start) => ({ aboveInputTokens: start, ...toRatesAt(rates, start) }))
  return { ...toRatesAt(rates, 0), tiers: tiers.length > 0 ? tiers : undefined }
}

/** Returns the rates of requests with this many input tokens. */
function toRatesAt(rates: z.infer<typeof Rates>, inputTokens: number) {
  const rateOf = (rate: TieredRate): number =>
    typeof rate === 'number' ? rate : (rate.tiers.findLast((tier) => tier.start <= inputTokens)?.price ?? rate.base)
  const { cache_read_mtok: read, cache_write_mtok: write, cache_write_1h_mtok: writeForHour } = rates
  return {
    input: rateOf(rates.input_mtok),
    output: rateOf(rates.output_mtok),
    cacheRead: read === undefined ? undefined : rateOf(read),
    cacheWrite5m: write === undefined ? undefined : rateOf(write),
    cacheWrite1h: writeForHour === undefined ? undefined : rateOf(writeForHour),
  }
}

/** Prices of the catalogs `pi` and `dev`: one rate each, without dates. */
type PlainPrices = { input: number; output: number; cacheRead: number; cacheWrite: number }

/** Converts the prices of catalogs that write 0 for a price that does not exist. */
export function convertPlainPrices(
  cost: PlainPrices & { tiers?: (PlainPrices & { inputTokensAbove: number })[] | undefined },
): Prices {
  const tiers = cost.tiers?.map((tier) => ({ aboveInputTokens: tier.inputTokensAbove, ...toPlainRates(tier) }))
  return { ...toPlainRates(cost), tiers }
}

const toPlainRates = ({ input, output, cacheRead, cacheWrite }: PlainPrices) => ({
  input,
  output,
  cacheRead: cacheRead > 0 ? cacheRead : undefined,
  cacheWrite5m: cacheWrite > 0 ? cacheWrite : undefined,
})
