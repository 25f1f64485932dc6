import type { Protocol, WireLevel } from '../harnesses/model-access.ts'

/** Tokens of a call, by what they cost. None is in two of them, but `reasoning`, which is part of `output`. */
export type Usage = {
  input: number
  cacheRead: number
  cacheWrite5m: number
  cacheWrite1h: number
  output: number
  reasoning: number
}

export const NO_USAGE: Usage = { input: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 0, reasoning: 0 }

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

/** What a path of a protocol is for. Only a `generate` costs anything. */
export type Operation = {
  kind: 'generate' | 'count' | 'models' | 'hello' | 'upgrade'
  model: string | null
  /** Only where the path says it, and not the body. */
  isStream?: boolean
  /** Shortens a conversation. The length of its output cannot be limited. */
  isCompaction?: boolean
}

/** What a request has besides text. */
export type Media = { pictures: number; documents: number }

export const NO_MEDIA: Media = { pictures: 0, documents: 0 }

/** What a request asks for. */
export type Asked = {
  /** Null: the request names none. */
  model: string | null
  isStream: boolean
  /** Null: it does not speak of it. */
  level: WireLevel | null
  /** At most so many tokens of output. Null: the model's own limit. */
  outputTokens: number | null
  /** How often the provider reads the input, where it is more than once. */
  inputPasses?: number
  /** Number of answers to one request. Each may use up the limit. */
  alternatives?: number
  /** Output tokens that the request explicitly sets aside for reasoning. */
  reasoningTokens?: number | undefined
  /** Names of numbers that multiply the cost of the call and are not integers in their range. */
  invalidCounts: string[]
  /** What the provider would do by itself, outside of every sandbox: searches, fetches, code, pictures by address. */
  hosted: string[]
  /** What has another price than the model's: tiers of service, speed, regions, sound. No budget would hold with it. */
  surcharges: string[]
  media?: Media
}

/** What was learnt from an answer. */
export type Metered = {
  /** Undefined: no usage crossed the wire, or it was cut before the last one. */
  usage: Usage | undefined
  /** The model that answered, as it calls itself. */
  model: string | null
  /** It came to its own end. */
  isComplete: boolean
  isRefusal: boolean
  /** The answer ends because it reached its output limit. */
  isTruncated: boolean
  /** What is known of an answer that never reported its usage. */
  partial: PartialAnswer
  /** `priority`, `flex`: it changes the price. */
  serviceTier: string | null
  /** The error that the answer contains, whatever its status says. */
  error: AnswerError | null
}

/** `request`: the provider says that the request is invalid. `rate`: it says that there were too many. */
export type AnswerError = 'request' | 'rate' | 'other'

/** `usage`: counts that the provider reported before the end. `textBytes`: text, reasoning and tool input so far. */
type PartialAnswer = { usage: Usage | undefined; textBytes: number }

/** Learns from an answer as it passes, and changes nothing of it. */
export type Meter = {
  /** Takes the data of one server-sent event. False: it is not a JSON object, or one that is too costly to parse. */
  event(data: string): boolean
  /** A whole answer. */
  body(json: Json): void
  read(): Metered
}

/** One protocol. Files of `protocols/` each make one; nothing else knows their fields. */
export type Wire = {
  protocol: Protocol
  /** Undefined: the path is none of this protocol's. The query is not part of the path. */
  operation(method: string, path: string): Operation | undefined
  read(operation: Operation, body: JsonObject): Asked
  /**
   * The body as it is sent on, where it must differ: another model's name, usage that the client did not ask for.
   * The same object when nothing differs: then the bytes go on as they came.
   */
  rewritten(body: JsonObject, wanted: { model: string }): JsonObject
  /** Returns the body with an output limit for each of its alternatives. Everything else stays as it is. */
  withOutputLimit(body: JsonObject, limit: { tokens: number; provider: string }): JsonObject
  /** The path as it is sent on. */
  rewrittenPath(path: string, wanted: { model: string }): string
  headers(key: string): Record<string, string>
  /** The smallest harmless request. What becomes of it is never the program's doing. */
  probe(model: string): { path: string; body: JsonObject; headers?: Record<string, string> }
  newMeter(): Meter
  /** An error as this provider's own look, so that programs understand it. */
  problem(status: number, code: string, message: string): JsonObject
}
