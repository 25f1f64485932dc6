import type { Level, ModelTraits, Protocol, WireLevel } from '../harnesses/model-access.ts'
import type { Prices } from './prices.ts'

/** A model that can be compared, whoever told us of it. */
export type Model = {
  catalogId: string
  /** The name on the wire. */
  name: string
  label: string
  provider: string
  custom: boolean
  /** Those in which its provider serves it. None: nobody is asked. */
  protocols: readonly Protocol[]
  contextTokens: number
  outputTokens: number
  knowledgeCutoff: string | null
  levels: readonly { level: Level; wire: WireLevel }[]
  defaultLevel: Level
  /** As they are now. What was tried keeps those that it began with. */
  prices: Prices
  /** Of a model that a workspace has added: where it is. Else its provider is known. */
  baseUrl: string | null
}

export const traitsOf = ({ name, provider, protocols, contextTokens, outputTokens }: Model): ModelTraits => ({
  model: name,
  provider,
  protocols,
  contextTokens,
  outputTokens,
})

export const findWire = ({ levels }: Model, level: string) => levels.find((known) => known.level === level)
