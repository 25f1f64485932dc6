import type { Cloud } from '../credentials/schema.ts'
import type { Level, ModelTraits, Protocol, WireLevel } from '../harnesses/model-access.ts'
import type { Prices } from './prices.ts'

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

export const toTraits = ({ name, provider, protocols, contextTokens, outputTokens }: Model): ModelTraits => ({
  model: name,
  provider,
  protocols,
  contextTokens,
  outputTokens,
})

/** Finds a reasoning level of a model and how it is requested. */
export const findModelLevel = ({ levels }: Model, level: string) => levels.find((known) => known.level === level)
