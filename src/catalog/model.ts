import { z } from 'zod'
import type { Cloud } from '../credentials/schema.ts'
import type { Level, ModelTraits, Protocol, WireLevel } from '../harnesses/model-access.ts'

/** A model that can be compared, from the snapshot or added by a workspace. */
export type Model = {
  catalogId: string
  /** Name in requests to the provider. */
  name: string
  label: string
  provider: string
  custom: boolean
  /** Protocols that its provider supports. Empty for the reference solution, which calls no model. */
  protocols: readonly Protocol[]
  contextTokens: number
  outputTokens: number
  knowledgeCutoff: string | null
  levels: readonly { level: Level; wire: WireLevel }[]
  defaultLevel: Level
  /** Current prices. Trials keep the prices they started with. */
  prices: Prices
  /** Address of a custom model; null for models of known providers. */
  baseUrl: string | null
  /** The cloud that hosts a custom model. */
  cloud?: Cloud | undefined
}

/** Selects the properties of a model that a harness may depend on. */
export const toTraits = ({ name, provider, protocols, contextTokens, outputTokens }: Model): ModelTraits => ({
  model: name,
  provider,
  protocols,
  contextTokens,
  outputTokens,
})

/** Finds a reasoning level of a model and how it is requested. */
export const findModelLevel = ({ levels }: Model, level: string) => levels.find((known) => known.level === level)

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
