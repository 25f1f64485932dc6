import { z } from 'zod'

/**
 * USD for a million tokens, which is also micro-dollars for one. Left out: unknown, and so is the cost
 * of a call that has such tokens; but a write for an hour is twice the input. Those of a workspace's own model are
 * filled in when it is read.
 */
const rates = {
  input: z.number().min(0),
  output: z.number().min(0),
  cacheRead: z.number().min(0).optional(),
  cacheWrite5m: z.number().min(0).optional(),
  cacheWrite1h: z.number().min(0).optional(),
}

/** Of a call with more input than this, all tokens. */
const PriceTier = z.strictObject({ aboveInputTokens: z.number().int().min(1), ...rates })

export const Prices = z.strictObject({ ...rates, tiers: z.array(PriceTier).optional() })
export type Prices = z.infer<typeof Prices>

export const DatedPrices = z.strictObject({ validFrom: z.iso.date().nullable(), prices: Prices })
export type DatedPrices = z.infer<typeof DatedPrices>

/** Those of a moment. The list begins with what was always so, and goes on with what changes when. */
export function pricesAt(dated: readonly DatedPrices[], at: Date): Prices | undefined {
  return dated.findLast(({ validFrom }) => validFrom === null || new Date(validFrom) <= at)?.prices
}
