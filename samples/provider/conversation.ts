import type { Json, JsonObject } from '../../src/harnesses/json.ts'

/** Tokens of a call by price class. `reasoning` is part of `output`. */
export type MockUsage = {
  input: number
  cacheRead: number
  cacheWrite5m: number
  cacheWrite1h: number
  output: number
  reasoning: number
}

export type Tool = {
  name: string
  /** `custom` tools take text instead of an object. */
  kind: string
  schema: JsonObject
  namespace: string | null
}

/** A request, independent of its protocol. */
export type Conversation = {
  model: string
  isStream: boolean
  /** Reasoning level of the request: an effort, `budget 2048` or `off`. Null if the request does not set it. */
  level: string | null
  tools: Tool[]
  /** Concatenated text of the user messages. */
  prompt: string
  /** Number of tool results in the request. */
  results: number
  /** Text of the last tool result. */
  lastResult: string
  /** True if the stream must include usage, which OpenAI Chat sends only on request. */
  wantsUsage: boolean
  /** Maximum number of output tokens, or null. */
  outputMax: number | null
}

export type MockToolCall = { tool: Tool; input: Json }

/** The answer of the model. */
export type MockAnswer = {
  /** Unique among the answers of one provider. */
  id: string
  model: string
  text: string
  call: MockToolCall | null
  isRefusal: boolean
  /** The answer ends at the output limit of the request. */
  isTruncated: boolean
  usage: MockUsage
  wantsUsage: boolean
}

/** Server side of one protocol. */
export type Speech = {
  protocol: string
  read(path: string, body: JsonObject): Conversation
  /** Reduces usage to the token classes that the protocol can report. */
  sayable(usage: MockUsage): MockUsage
  whole(answer: MockAnswer): JsonObject
  /** Events of the stream, as sent. */
  events(answer: MockAnswer): string[]
  /** Text in these events, in order. */
  pieces(answer: MockAnswer): string[]
  problem(status: number, message: string): JsonObject
}

/** Returns the text of a message, in any of its shapes. */
export function textIn(content: Json | undefined): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part) => (isTexted(part) ? part.text : '')).join('\n')
}

const isTexted = (part: Json): part is { text: string } =>
  typeof part === 'object' && part !== null && !Array.isArray(part) && typeof part.text === 'string'

export const event = (name: string, data: JsonObject): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

/** Splits text into pieces, as models stream it. */
export function piecesOf(text: string): string[] {
  return text.match(/[\s\S]{1,40}/g) ?? []
}

/** Returns the text of an answer and the input of its tool call. */
export const answerPieces = ({ text, call }: MockAnswer): string[] => [
  ...piecesOf(text),
  ...(call ? piecesOf(inputText(call)) : []),
]

export const inputText = ({ input }: MockToolCall): string =>
  typeof input === 'string' ? input : JSON.stringify(input)
