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

/** The reasoning levels that a program can express in one protocol. */
type LevelSupport = {
  /** `any`: the program forwards every effort unchanged. */
  efforts: readonly string[] | 'any'
  /** True if the program can request a number of thinking tokens. */
  budgets: boolean
  /** True if the program can turn thinking off. */
  off: boolean
  /** True if the program can omit the parameter. */
  unset: boolean
}

/** Supported levels by protocol. Protocols without an entry are not supported. */
export type LevelMapping = Partial<Record<Protocol, LevelSupport>>

/** Returns the first protocol that program and model support and that can express the level exactly. */
export const findProtocol = (
  mapping: LevelMapping,
  preferred: readonly Protocol[],
  { protocols }: ModelTraits,
  wire: WireLevel,
): Protocol | undefined =>
  preferred.find((protocol) => protocols.includes(protocol) && canExpress(mapping[protocol], wire))

function canExpress(support: LevelSupport | undefined, wire: WireLevel): boolean {
  if (!support) return false
  const { efforts, budgets, off, unset } = support
  if ('effort' in wire) return efforts === 'any' || efforts.includes(wire.effort)
  if ('budgetTokens' in wire) return budgets
  return 'off' in wire ? off : unset
}
