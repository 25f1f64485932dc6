import { z } from 'zod'

/**
 * USD per million tokens, which equals micro-dollars per token. The cost of a call is unknown if it has tokens without a
 * rate. Exception: a missing `cacheWrite1h` is twice `input`. Missing rates of custom models are filled in when read.
 */
const rates = {
  input: z.number().min(0),
  output: z.number().min(0),
  cacheRead: z.number().min(0).optional(),
  cacheWrite5m: z.number().min(0).optional(),
  cacheWrite1h: z.number().min(0).optional(),
}

/** Rates for all tokens of a call with more input than this. */
const PriceTier = z.strictObject({ aboveInputTokens: z.number().int().min(1), ...rates })

export const Prices = z.strictObject({ ...rates, tiers: z.array(PriceTier).optional() })
export type Prices = z.infer<typeof Prices>

export const DatedPrices = z.strictObject({ validFrom: z.iso.date().nullable(), prices: Prices })
export type DatedPrices = z.infer<typeof DatedPrices>

/** Finds the prices at a time. The list is sorted by `validFrom`, beginning with null. */
export function findPricesAt(dated: readonly DatedPrices[], at: Date): Prices | undefined {
  return dated.findLast(({ validFrom }) => validFrom === null || new Date(validFrom) <= at)?.prices
}
