import { isObject, type Json, type JsonObject } from '../../harnesses/json.ts'
import { measureJson } from '../../platform/untrusted-json.ts'
import type { AnswerError, Media, MediaKind } from '../wire-protocol.ts'

// Readers for untrusted JSON of any shape. A value of an unexpected type reads as empty.

export const objectOf = (json: Json | undefined): JsonObject => (isObject(json) ? json : {})

export const listOf = (json: Json | undefined): Json[] => (Array.isArray(json) ? json : [])

/** Reads a list, or one object in place of a list, which some providers accept. */
export const oneOrMore = (json: Json | undefined): Json[] => (isObject(json) ? [json] : listOf(json))

export const textOf = (json: Json | undefined): string | null => (typeof json === 'string' && json !== '' ? json : null)

/** Returns true if a member is present and turns something on. */
export const isFilled = (json: Json | undefined): boolean =>
  !(json === undefined || json === null || json === false || (Array.isArray(json) && json.length === 0))

/**
 * Counts media parts by kind. `pictureTokensMax`: maximum tokens of one picture, which can be far more than its bytes.
 */
export const countMedia = (
  parts: readonly JsonObject[],
  kindOf: (part: JsonObject) => MediaKind | undefined,
  pictureTokensMax: number,
): Media => {
  const pictures = parts.filter((part) => kindOf(part) === 'pictures')
  return {
    pictures: pictures.length,
    documents: parts.filter((part) => kindOf(part) === 'documents').length,
    pictureTokens: pictures.length * pictureTokensMax,
    pictureBytes: pictures.reduce((sum, part) => sum + encodedBytes(part), 0),
  }
}

/** Returns the length of the encoded picture in a part of any protocol. */
function encodedBytes({ source, image_url, inlineData, inline_data }: JsonObject): number {
  const inlineTexts = [source, inlineData, inline_data].map((each) => objectOf(each).data)
  const texts = [image_url, objectOf(image_url).url, ...inlineTexts]
  return Math.max(...texts.map((text) => (typeof text === 'string' && ENCODED_DATA.test(text) ? text.length : 0)))
}

/** Matches base64, alone or in a data URL. */
const ENCODED_DATA = /^(data:image\/[^,]{0,100},)?[A-Za-z0-9+/=_-]*$/

/** Lists members that are present with a value other than the ordinary ones. */
export const listUnusual = (body: JsonObject, ordinary: Readonly<Record<string, readonly string[]>>): string[] =>
  Object.entries(ordinary).flatMap(([name, values]) => {
    const value = body[name]
    const isOrdinary = !isFilled(value) || (typeof value === 'string' && values.includes(value.toLowerCase()))
    return isOrdinary ? [] : [name]
  })

/** Maximum number of tokens. Above the limits of every model, and small enough that sums fit a database column. */
const TOKENS_MAX = 100_000_000

/** Inclusive bounds of an integer. */
type Range = readonly [min: number, max: number]
export const TOKENS: Range = [0, TOKENS_MAX]
/** -1 leaves the number of reasoning tokens to the model. */
export const REASONING_TOKENS: Range = [-1, TOKENS_MAX]
/** Number of alternatives. Providers allow far fewer. */
export const ALTERNATIVES: Range = [1, 128]
/** Range for protocols without alternatives, because some compatible providers interpret the members anyway. */
export const NO_ALTERNATIVES: Range = [1, 1]

/**
 * Returns the names of values that are present and are not integers in their range. Providers may parse them
 * leniently.
 */
export const listInvalidCounts = (counts: readonly [name: string, value: Json | undefined, range: Range][]): string[] =>
  counts.filter(([, value, range]) => isFilled(value) && !isIntegerIn(value, range)).map(([name]) => name)

const isIntegerIn = (value: Json | undefined, [min, max]: Range): boolean =>
  typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max

/** Reads a number of tokens. Returns undefined for anything but an integer in the range of `TOKENS`. */
export const tokensOf = (json: Json | undefined): number | undefined =>
  typeof json === 'number' && Number.isInteger(json) && json >= 0 && json <= TOKENS_MAX ? json : undefined

/** Shorter events are parsed without measuring them first. */
const SMALL_EVENT_CHARS = 16 * 1024
const EVENT_VALUES_MAX = 50_000
const EVENT_DEPTH_MAX = 100

/**
 * Parses the data of an event. Returns undefined if it is not a JSON object, or would take so long to parse that other
 * calls had to wait. Text that is obviously no object is not parsed, because an exception costs more than most events.
 */
function parseEvent(data: string): JsonObject | undefined {
  if (!/^\s*\{/.test(data)) return undefined
  return data.length > SMALL_EVENT_CHARS && !isCheap(data) ? undefined : parseObject(data)
}

/** Parses text that should be a JSON object. Returns undefined if it is not. */
export function parseObject(text: string): JsonObject | undefined {
  try {
    const json: Json = JSON.parse(text)
    return isObject(json) ? json : undefined
  } catch {
    return undefined
  }
}

function isCheap(data: string): boolean {
  const { values, depth } = measureJson(Buffer.from(data))
  return values <= EVENT_VALUES_MAX && depth <= EVENT_DEPTH_MAX
}

/** Returns a handler that parses the data of an event, passes it on, and tells whether it was readable. */
export const createEventHandler =
  (take: (event: JsonObject) => void) =>
  (data: string): boolean => {
    const event = parseEvent(data)
    if (event) take(event)
    return event !== undefined
  }

const INVALID_REQUEST =
  /invalid_(request|prompt|argument)|context_length|request_too_large|content_(filter|policy)|\b4(00|13|22)\b/i
const RATE_LIMITED = /rate_limit|resource_exhausted|too_many_requests|\b429\b/i

/** Classifies an error object of an answer. Returns null if there is none. */
export function classifyError(error: Json | undefined): AnswerError | null {
  if (!isFilled(error)) return null
  const { type, code, status } = objectOf(error)
  const words = [type, code, status].filter((word) => typeof word === 'string' || typeof word === 'number').join(' ')
  if (INVALID_REQUEST.test(words)) return 'request'
  return RATE_LIMITED.test(words) ? 'rate' : 'other'
}

/** Returns the output limit of all alternatives together, or null if there is none. */
export function limitOf(limit: Json | undefined, alternatives: Json | undefined): number | null {
  const tokens = tokensOf(limit)
  // Some providers read 0 as unlimited.
  return !tokens ? null : tokens * alternativesOf(alternatives)
}

export const alternativesOf = (alternatives: Json | undefined): number => Math.max(1, tokensOf(alternatives) ?? 1)

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

/**
 * Members by which proxies such as LiteLLM and OpenRouter let another model, address or key answer. Folded, because a
 * lenient parser may read other spellings.
 */
const REROUTING_MEMBERS = new Set([
  'fallbacks',
  'contextwindowfallbacks',
  'contentpolicyfallbacks',
  'defaultfallbacks',
  'apibase',
  'apikey',
  'baseurl',
  'customllmprovider',
  'modellist',
  'models',
  'plugins',
  'routersettings',
  'routersettingsoverride',
  'userconfig',
  'routingconfig',
  'modelconfig',
])

/** Lists members that could let another model or address answer. */
export const listRerouting = (body: JsonObject): string[] =>
  Object.keys(body).filter((name) => isFilled(body[name]) && REROUTING_MEMBERS.has(foldName(name)))

/** Folds compatible characters and case, and removes everything but letters and digits. */
const foldName = (name: string): string =>
  name
    .normalize('NFKC')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '')

/**
 * Returns the body with only these members, or the same object if it has no others. Proxies and compatible providers
 * give a meaning to many undocumented members.
 */
export function keepMembers(body: JsonObject, names: ReadonlySet<string>): JsonObject {
  const entries = Object.entries(body)
  const kept = entries.filter(([name]) => names.has(name))
  return kept.length === entries.length ? body : Object.fromEntries(kept)
}

/** Returns the body with this model, or the same object if it already has it. */
export const withModel = (body: JsonObject, model: string): JsonObject =>
  body.model === model ? body : { ...body, model }

/** Splits input tokens into uncached, read and written. Cached tokens are part of the input, so they are clipped to it. */
export function splitInput(
  all: number,
  read: number,
  written: number,
): { input: number; cacheRead: number; cacheWrite5m: number } {
  const cacheRead = Math.min(read, all)
  const cacheWrite5m = Math.min(written, all - cacheRead)
  return { input: all - cacheRead - cacheWrite5m, cacheRead, cacheWrite5m }
}

/** Returns the length of a value as JSON. A value that is nested too deeply to be serialized counts as 0. */
export function jsonBytes(json: Json | undefined): number {
  if (json === undefined) return 0
  try {
    return Buffer.byteLength(JSON.stringify(json))
  } catch {
    return 0
  }
}

export const byteLength = (json: Json | undefined): number => (typeof json === 'string' ? Buffer.byteLength(json) : 0)
