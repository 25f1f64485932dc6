import type { Json, JsonObject } from '../harnesses/json.ts'
import type { Protocol, WireLevel } from '../harnesses/model-access.ts'

/** Tokens of a call by price class. Classes do not overlap, except that `reasoning` is part of `output`. */
export type Usage = {
  input: number
  cacheRead: number
  cacheWrite5m: number
  cacheWrite1h: number
  output: number
  reasoning: number
}

export const NO_USAGE: Usage = { input: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 0, reasoning: 0 }

export const addUsage = (one: Usage, other: Usage): Usage => ({
  input: one.input + other.input,
  cacheRead: one.cacheRead + other.cacheRead,
  cacheWrite5m: one.cacheWrite5m + other.cacheWrite5m,
  cacheWrite1h: one.cacheWrite1h + other.cacheWrite1h,
  output: one.output + other.output,
  reasoning: one.reasoning + other.reasoning,
})

/** Sums the input tokens, including cached ones. */
export const sumInputTokens = ({ input, cacheRead, cacheWrite5m, cacheWrite1h }: Usage): number =>
  input + cacheRead + cacheWrite5m + cacheWrite1h

/**
 * The operation that a path of a protocol stands for. `generate`: an answer of the model, the only operation that costs
 * anything. `count`: the number of tokens of a request. `models`: the list of models. `hello`: a connection test.
 * `upgrade`: a WebSocket, which is not supported.
 */
export type WireOperation = {
  kind: 'generate' | 'count' | 'models' | 'hello' | 'upgrade'
  /** The model that the path names. Null if the body names it. */
  model: string | null
  /** Compacts a conversation. Its output cannot be limited. */
  isCompaction?: boolean
}

/**
 * Number of media parts in a request. `pictureTokens`: the most tokens that the pictures can have. `pictureBytes`: length
 * of encoded pictures, which are not read as text.
 */
export type Media = { pictures: number; documents: number; pictureTokens: number; pictureBytes: number }
export type MediaKind = 'pictures' | 'documents'

export const NO_MEDIA: Media = { pictures: 0, documents: 0, pictureTokens: 0, pictureBytes: 0 }

/** The parts of a request that are checked and that determine its cost. */
export type ParsedRequest = {
  /** Null if the request names no model. */
  model: string | null
  /** Null if not set in the request. */
  level: WireLevel | null
  /** Maximum number of output tokens. Null if only the model's own limit applies. */
  outputTokens: number | null
  /** Number of times that the provider reads the input. */
  inputPasses?: number
  /** Number of answers to one request. Each may use the whole output limit. */
  alternatives?: number
  /** Output tokens that the request explicitly sets aside for reasoning. */
  reasoningTokens?: number | undefined
  /** The part of `reasoningTokens` that the provider bills in addition to `outputTokens`. */
  reasoningTokensAbove?: number | undefined
  /** Names of settings that multiply the cost of the call, and are set twice or are not integers in their range. */
  invalidCounts: string[]
  /** Server-side tools: searches, fetches, code, media by URL. The provider would run them outside every sandbox. */
  serverSideTools: string[]
  /** Features that are billed separately: service tiers, speed, regions, audio. No budget could be enforced with them. */
  surcharges: string[]
  media?: Media
}

/** Facts that a meter has read from an answer. */
export type MeteredAnswer = {
  /** Undefined if the answer has not reported its final usage. */
  usage: Usage | undefined
  /** The model that answered, as the provider reports it. */
  model: string | null
  /** The answer has its regular end. */
  isComplete: boolean
  /** The model declined to answer. */
  isRefusal: boolean
  /** The answer ends because it reached its output limit. */
  isTruncated: boolean
  /** Facts for an estimate, if the answer does not report its usage. */
  partial: PartialAnswer
  /** Tiers such as `priority` and `flex` change the price. */
  serviceTier: string | null
  /** The error that the answer contains, whatever its status says. */
  error: AnswerError | null
}

/** `request`: the provider says that the request is invalid. `rate`: it says that there were too many requests. */
export type AnswerError = 'request' | 'rate' | 'other'

/** `usage`: counts reported before the end. `textBytes`: length of text, reasoning and tool input so far. */
type PartialAnswer = { usage: Usage | undefined; textBytes: number }

/** Reads usage from an answer as it passes, without changing it. */
export type UsageMeter = {
  /** Takes the data of one server-sent event. False: it is not a JSON object, or one that is too costly to parse. */
  takeEvent(data: string): boolean
  /** Takes a whole answer. */
  takeBody(json: Json): void
  read(): MeteredAnswer
}

/** Names of the members of a request that hold its conversation. */
export type ConversationMembers = { turns: string; instructions?: string }

/** A protocol of model APIs. Each file of `protocols/` implements one; no other code knows their fields. */
export type WireProtocol = {
  protocol: Protocol
  /** Returns undefined if the path does not belong to this protocol. The path excludes the query. */
  parseOperation(method: string, path: string): WireOperation | undefined
  parseRequest(operation: WireOperation, body: JsonObject): ParsedRequest
  conversation: ConversationMembers
  /** Matches the protocol's own headers that are forwarded. Null if the protocol has none. */
  forwardedHeaders: RegExp | null
  /** Returns the part of a forwarded header's value that is sent. An empty value is not sent. */
  filterHeader?(name: string, value: string): string
  /**
   * Returns the body to forward: with the grant's model, with usage reporting turned on, and without undocumented
   * members. Returns the same object if nothing differs; then the bytes are forwarded unchanged.
   */
  rewriteBody(body: JsonObject, wanted: { model: string }): JsonObject
  /** Returns the body with an output limit per alternative, otherwise unchanged. */
  withOutputLimit(body: JsonObject, limit: { tokens: number; provider: string }): JsonObject
  /** Returns the path to forward. */
  rewritePath(path: string, wanted: { model: string }): string
  authHeaders(key: string): Record<string, string>
  /** Builds the smallest harmless request. Its outcome cannot depend on the program. */
  buildProbe(model: string): { path: string; body: JsonObject; headers?: Record<string, string> }
  createMeter(): UsageMeter
  /** Formats an error as the provider does, so that programs understand it. */
  formatError(status: number, code: string, message: string): JsonObject
}
