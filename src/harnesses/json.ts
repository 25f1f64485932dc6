export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the member if it has the expected type, otherwise an empty value of that type. */
export const objectAt = (from: JsonObject, key: string): JsonObject => {
  const value = from[key]
  return isObject(value) ? value : {}
}

export const objectsAt = (from: JsonObject, key: string): JsonObject[] => {
  const value = from[key]
  return Array.isArray(value) ? value.filter(isObject) : []
}

export const textAt = (from: JsonObject, key: string): string => {
  const value = from[key]
  return typeof value === 'string' ? value : ''
}

/**
 * Maximum nesting of JSON that is read from an untrusted party. JSON.parse does not recurse, but JSON.stringify and
 * String do: a value that is nested a few thousand deep overflows the stack when it is serialised.
 */
const JSON_DEPTH_MAX = 100

/** Parses JSON of an untrusted party. Undefined for text that is not JSON, or that is nested too deeply. */
export function parseJson(text: string): Json | undefined {
  if (isNestedDeeply(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c]
const NESTING = new Int8Array(128)
for (const [sign, change] of Object.entries({ '[': 1, '{': 1, ']': -1, '}': -1 })) NESTING[sign.charCodeAt(0)] = change

/** Scans the text before anything is allocated. Brackets within strings do not count. */
function isNestedDeeply(text: string): boolean {
  let depth = 0
  for (let at = 0; at < text.length && depth <= JSON_DEPTH_MAX; at += 1) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = findStringEnd(text, at)
    else depth += NESTING[code] ?? 0
  }
  return depth > JSON_DEPTH_MAX
}

/** Returns the position of the closing quote, or a position past the end of the text. */
function findStringEnd(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at
}

/** Parses the arguments of a tool call, which some programs report as a JSON string. */
export function parseArguments(value: Json | undefined): JsonObject {
  const parsed = typeof value === 'string' ? parseJson(value) : value
  return isObject(parsed) ? parsed : {}
}
