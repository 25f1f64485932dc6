import type { Json, JsonObject } from '../../src/harnesses/json.ts'

/** Tokens of a call, by what they cost. `reasoning` is part of `output`. */
export type Tokens = {
  input: number
  cacheRead: number
  cacheWrite5m: number
  cacheWrite1h: number
  output: number
  reasoning: number
}

export type Tool = {
  name: string
  /** `custom` takes text and not an object. */
  kind: string
  schema: JsonObject
  namespace: string | null
}

/** A request, whatever protocol it came in. */
export type Conversation = {
  model: string
  isStream: boolean
  /** As it is on the wire, in words: an effort, `budget 2048`, `off`. Null: the request does not speak of it. */
  level: string | null
  tools: Tool[]
  /** Everything that the user's side has said. */
  prompt: string
  /** How many calls of tools have been answered. */
  results: number
  /** What the last of them brought. */
  lastResult: string
  /** A stream of one protocol tells its usage only when asked. */
  wantsUsage: boolean
  /** Output tokens that the request allows. Null: no limit. */
  outputMax: number | null
}

export type Call = { tool: Tool; input: Json }

/** What the model answers. */
export type Answer = {
  /** Unique among the answers of one provider. */
  id: string
  model: string
  text: string
  call: Call | null
  isRefusal: boolean
  /** The answer ends at the output limit of the request. */
  isTruncated: boolean
  usage: Tokens
  wantsUsage: boolean
}

/** One protocol, from the provider's side. */
export type Speech = {
  protocol: string
  read(path: string, body: JsonObject): Conversation
  /** The classes of tokens that this protocol has words for. */
  sayable(usage: Tokens): Tokens
  whole(answer: Answer): JsonObject
  /** The stream, event by event, as it goes over the wire. */
  events(answer: Answer): string[]
  /** The pieces of text in these events, in their order. */
  pieces(answer: Answer): string[]
  problem(status: number, message: string): JsonObject
}

/** The text of a message, in any of the shapes that it may have. */
export function textIn(content: Json | undefined): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part) => (isTexted(part) ? part.text : '')).join('\n')
}

const isTexted = (part: Json): part is { text: string } =>
  typeof part === 'object' && part !== null && !Array.isArray(part) && typeof part.text === 'string'

export const event = (name: string, data: JsonObject): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

/** Models send text in pieces, and so do we. */
export function piecesOf(text: string): string[] {
  return text.match(/[\s\S]{1,40}/g) ?? []
}

/** The text of an answer, and the input of the tool that it calls. */
export const answerPieces = ({ text, call }: Answer): string[] => [
  ...piecesOf(text),
  ...(call ? piecesOf(inputText(call)) : []),
]

export const inputText = ({ input }: Call): string => (typeof input === 'string' ? input : JSON.stringify(input))
