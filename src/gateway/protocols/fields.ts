import { countsOf } from '../duplicates.ts'
import type { AnswerError, Json, JsonObject, Media } from '../wire.ts'

// What comes from outside has any shape. These read what is looked for, and make nothing of everything else.

export const objectOf = (json: Json | undefined): JsonObject => (isObject(json) ? json : {})

export const listOf = (json: Json | undefined): Json[] => (Array.isArray(json) ? json : [])

/** Some providers take one object where a list is meant. */
export const oneOrMore = (json: Json | undefined): Json[] => (isObject(json) ? [json] : listOf(json))

export const textOf = (json: Json | undefined): string | null => (typeof json === 'string' && json !== '' ? json : null)

export const isObject = (json: Json | undefined): json is JsonObject =>
  typeof json === 'object' && json !== null && !Array.isArray(json)

/** It is there, and it switches something on. */
export const isFilled = (json: Json | undefined): boolean =>
  !(json === undefined || json === null || json === false || (Array.isArray(json) && json.length === 0))

/** How many parts are of which kind. */
export const mediaIn = (parts: readonly JsonObject[], kindOf: (part: JsonObject) => keyof Media | undefined): Media => {
  const kinds = parts.map(kindOf)
  const count = (kind: keyof Media): number => kinds.filter((each) => each === kind).length
  return { pictures: count('pictures'), documents: count('documents') }
}

/** Members that are there and say something else than what is ordinary. */
export const unusual = (body: JsonObject, ordinary: Readonly<Record<string, readonly string[]>>): string[] =>
  Object.entries(ordinary).flatMap(([name, values]) => {
    const value = body[name]
    const isOrdinary = !isFilled(value) || (typeof value === 'string' && values.includes(value.toLowerCase()))
    return isOrdinary ? [] : [name]
  })

// No model takes so many, and a few of them together still fit a column of the database.
const TOKENS_MAX = 100_000_000

/** Inclusive bounds of an integer. */
type Range = readonly [min: number, max: number]
export const TOKENS: Range = [0, TOKENS_MAX]
/** -1 leaves the number of reasoning tokens to the model. */
export const REASONING_TOKENS: Range = [-1, TOKENS_MAX]
/** Providers allow far fewer. */
export const ALTERNATIVES: Range = [1, 128]
/** Protocols without alternatives: some compatible providers read these members all the same. */
export const NO_ALTERNATIVES: Range = [1, 1]

/** Returns the names of values that are present and are not integers in their range. Providers may parse them leniently. */
export const listInvalidCounts = (counts: readonly [name: string, value: Json | undefined, range: Range][]): string[] =>
  counts.filter(([, value, range]) => isFilled(value) && !isIntegerIn(value, range)).map(([name]) => name)

const isIntegerIn = (value: Json | undefined, [min, max]: Range): boolean =>
  typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max

/** Undefined: it is no number of tokens. */
export const tokensOf = (json: Json | undefined): number | undefined =>
  typeof json === 'number' && Number.isInteger(json) && json >= 0 && json <= TOKENS_MAX ? json : undefined

/** Shorter events are parsed without looking at their shape first. */
const SMALL_EVENT_CHARS = 16 * 1024
const EVENT_VALUES_MAX = 50_000
const EVENT_DEPTH_MAX = 100

/**
 * Parses the data of an event. Undefined: it is no JSON object, or has so many parts that parsing it would hold up other
 * calls. Text that is obviously no object is not parsed: an exception costs more than most events.
 */
function parseEvent(data: string): JsonObject | undefined {
  if (!/^\s*\{/.test(data)) return undefined
  return data.length > SMALL_EVENT_CHARS && !isCheap(data) ? undefined : parseObject(data)
}

/** Parses an object that was sent as text. Undefined: it is none. */
export function parseObject(text: string): JsonObject | undefined {
  try {
    const json: Json = JSON.parse(text)
    return isObject(json) ? json : undefined
  } catch {
    return undefined
  }
}

function isCheap(data: string): boolean {
  const { values, depth } = countsOf(Buffer.from(data))
  return values <= EVENT_VALUES_MAX && depth <= EVENT_DEPTH_MAX
}

/** Returns an event handler of a meter: parses the data and says whether it could. */
export const takingEvents =
  (take: (event: JsonObject) => void) =>
  (data: string): boolean => {
    const event = parseEvent(data)
    if (event) take(event)
    return event !== undefined
  }

const INVALID_REQUEST =
  /invalid_(request|prompt|argument)|context_length|request_too_large|content_(filter|policy)|\b4(00|13|22)\b/i
const RATE_LIMITED = /rate_limit|resource_exhausted|too_many_requests|\b429\b/i

/** Classifies an error object of an answer. Null: there is none. */
export function errorIn(error: Json | undefined): AnswerError | null {
  if (!isFilled(error)) return null
  const { type, code, status } = objectOf(error)
  const words = [type, code, status].filter((word) => typeof word === 'string' || typeof word === 'number').join(' ')
  if (INVALID_REQUEST.test(words)) return 'request'
  return RATE_LIMITED.test(words) ? 'rate' : 'other'
}

/** A limit of the whole answer, where each of `times` alternatives may use it up. */
export function limitOf(limit: Json | undefined, times: Json | undefined): number | null {
  const tokens = tokensOf(limit)
  // To some providers nothing means without limit.
  return !tokens ? null : tokens * timesOf(times)
}

export const timesOf = (times: Json | undefined): number => Math.max(1, tokensOf(times) ?? 1)

/**
 * Members by which compatible providers merge other parameters, choose among providers, or bill something else than the
 * tokens of one answer.
 */
export const PRICED_MEMBERS: Readonly<Record<string, readonly string[]>> = {
  audio: [],
  extra_body: [],
  max_new_tokens: [],
  prediction: [],
  preset: [],
  provider: [],
  route: [],
  speed: ['standard'],
  use_beam_search: [],
}

/** The body with the model's name in it; the same object when it has it already. */
export const withModel = (body: JsonObject, model: string): JsonObject =>
  body.model === model ? body : { ...body, model }

/** The parts of an input of which some are cached. They are said to be in it, so they never are more than it. */
export function splitInput(
  all: number,
  read: number,
  written: number,
): { input: number; cacheRead: number; cacheWrite5m: number } {
  const cacheRead = Math.min(read, all)
  const cacheWrite5m = Math.min(written, all - cacheRead)
  return { input: all - cacheRead - cacheWrite5m, cacheRead, cacheWrite5m }
}

/** Length of a value as JSON. A value that is nested too deeply to be written counts as nothing. */
export function jsonBytes(json: Json | undefined): number {
  if (json === undefined) return 0
  try {
    return Buffer.byteLength(JSON.stringify(json))
  } catch {
    return 0
  }
}

export const byteLength = (json: Json | undefined): number => (typeof json === 'string' ? Buffer.byteLength(json) : 0)
