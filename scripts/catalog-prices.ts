import { z } from 'zod'
import type { DatedPrices, Prices } from '../src/catalog/model.ts'

const DatedRate = z.union([
  z.number(),
  z.object({ base: z.number(), tiers: z.array(z.object({ start: z.number(), price: z.number() })) }),
])
type DatedRate = z.infer<typeof DatedRate>

const Rates = z.object({
  input_mtok: DatedRate,
  output_mtok: DatedRate,
  cache_read_mtok: DatedRate.optional(),
  cache_write_mtok: DatedRate.optional(),
  cache_write_1h_mtok: DatedRate.optional(),
})

const Constraint = z.discriminatedUnion('type', [
  z.object({ type: z.literal('start_date'), start_date: z.iso.date() }),
  z.object({ type: z.literal('time_of_date') }),
])

export const ModelPrice = z.union([z.array(z.object({ constraint: Constraint.optional(), prices: Rates })), Rates])

/** Returns current and future prices of a dated list. Undefined if prices depend on the hour, which we cannot express. */
export function listCurrentPrices(source: z.infer<typeof ModelPrice>, today: Date): DatedPrices[] | undefined {
  const list = Array.isArray(source) ? source : [{ prices: source, constraint: undefined }]
  if (list.some(({ constraint }) => constraint?.type === 'time_of_date')) return undefined
  const dated = list.map(({ constraint, prices }) => ({
    validFrom: constraint?.type === 'start_date' ? constraint.start_date : null,
    prices: toPrices(prices),
  }))
  const now = dated.findLastIndex(({ validFrom }) => validFrom === null || new Date(validFrom) <= today)
  return dated.slice(now).map((each, n) => (n === 0 ? { ...each, validFrom: null } : each))
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

function toRatesAt(rates: z.infer<typeof Rates>, start: number) {
  const at = (rate: DatedRate): number =>
    typeof rate === 'number' ? rate : (rate.tiers.findLast((tier) => tier.start <= start)?.price ?? rate.base)
  const { cache_read_mtok: read, cache_write_mtok: write, cache_write_1h_mtok: hour } = rates
  return {
    input: at(rates.input_mtok),
    output: at(rates.output_mtok),
    cacheRead: read === undefined ? undefined : at(read),
    cacheWrite5m: write === undefined ? undefined : at(write),
    cacheWrite1h: hour === undefined ? undefined : at(hour),
  }
}

type PlainPrices = { input: number; output: number; cacheRead: number; cacheWrite: number }

/** Converts the prices of catalogs that write 0 for a price that does not exist. */
export function convertPlainPrices(
  cost: PlainPrices & { tiers?: (PlainPrices & { inputTokensAbove: number })[] | undefined },
): Prices {
  const tiers = cost.tiers?.map((tier) => ({ aboveInputTokens: tier.inputTokensAbove, ...toRates(tier) }))
  return { ...toRates(cost), tiers }
}

const toRates = ({ input, output, cacheRead, cacheWrite }: PlainPrices) => ({
  input,
  output,
  cacheRead: cacheRead > 0 ? cacheRead : undefined,
  cacheWrite5m: cacheWrite > 0 ? cacheWrite : undefined,
})
