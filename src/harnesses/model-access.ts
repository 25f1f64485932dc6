/** How a program speaks to a model. */
export const PROTOCOLS = ['anthropic-messages', 'openai-chat', 'openai-responses', 'gemini'] as const
export type Protocol = (typeof PROTOCOLS)[number]

/** How hard a model is asked to think, from the least. A model knows some of them. */
export const LEVELS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type Level = (typeof LEVELS)[number]

/** What a level is on the wire of a model. `nothing`: it has one way to think, and the request does not speak of it. */
export type WireLevel = { effort: string } | { budgetTokens: number } | { off: true } | { nothing: true }

/** What is known of a model that a harness has to know. */
export type ModelTraits = {
  /** The name on the wire. */
  model: string
  provider: string
  /** The protocols in which its provider serves it. */
  protocols: readonly Protocol[]
  contextTokens: number
  outputTokens: number
}

/** A model, as a harness has it from inside its sandbox. */
export type ModelAccess = ModelTraits & {
  protocol: Protocol
  level: Level
  wireLevel: WireLevel
  /** Only this address answers. Routes lie under it as the provider has them: `/v1/messages`, `/v1beta/models/…`. */
  baseUrl: string
  /** Stands where a key is expected. It is worth nothing outside this trial. */
  token: string
}
