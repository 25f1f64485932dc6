/** Wire formats of model APIs. */
export const PROTOCOLS = ['anthropic-messages', 'openai-chat', 'openai-responses', 'gemini'] as const
export type Protocol = (typeof PROTOCOLS)[number]

/** Reasoning levels in ascending order. A model supports some of them. */
export const LEVELS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type Level = (typeof LEVELS)[number]

/** A reasoning level as request parameter. `nothing`: the model has a single level, and the parameter is omitted. */
export type WireLevel = { effort: string } | { budgetTokens: number } | { off: true } | { nothing: true }

/** Properties of a model that a harness depends on. */
export type ModelTraits = {
  /** Model name in requests. */
  model: string
  provider: string
  /** Protocols that the provider supports for this model. */
  protocols: readonly Protocol[]
  contextTokens: number
  outputTokens: number
}

/** Access to a model from inside a sandbox. */
export type ModelAccess = ModelTraits & {
  protocol: Protocol
  level: Level
  wireLevel: WireLevel
  /** Address of the gateway, the only one that is reachable. Has the provider's routes: `/v1/messages`, `/v1beta/models/…`. */
  baseUrl: string
  /** Used in place of an API key. Valid only within this trial. */
  token: string
}
