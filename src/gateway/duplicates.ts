import type { Json, JsonObject } from './wire.ts'

/**
 * Whether some object of a text has two members of one name. Parsers differ in which of them counts: what we judge
 * and what the provider does would not be the same request. Some do not tell large letters from small: for the members
 * of the request itself, which we judge by, those are the same name too.
 */
export const hasDuplicates = (colons: number, parsed: JsonObject): boolean =>
  colons !== members(parsed) || hasTwins(Object.keys(parsed))

const hasTwins = (names: readonly string[]): boolean => new Set(names.map(folded)).size < names.length

/** Up and down again: two letters outside of ASCII fold into it. Google reads `aB` and `a_b` as one. */
const folded = (name: string): string => name.toUpperCase().toLowerCase().replaceAll('_', '')

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
/** How a sign outside of strings changes the depth. A comma or an opening bracket comes before each value. */
const NESTING = new Int8Array(256)
const VALUES = new Uint8Array(256)
for (const sign of ',[{') VALUES[sign.charCodeAt(0)] = 1
for (const [sign, change] of Object.entries({ '[': 1, '{': 1, ']': -1, '}': -1 })) NESTING[sign.charCodeAt(0)] = change

/** What a text holds outside of its strings, before anyone makes objects of it: a colon for each member. */
export function countsOf(bytes: Uint8Array): { colons: number; values: number; depth: number } {
  const counts = { colons: 0, values: 0, depth: 0 }
  let depth = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === QUOTE) {
      at = endOfString(bytes, at)
      continue
    }
    if (byte === COLON) counts.colons += 1
    counts.values += VALUES[byte] ?? 0
    depth += NESTING[byte] ?? 0
    if (depth > counts.depth) counts.depth = depth
  }
  return counts
}

/** The place of the quote that ends a string. */
function endOfString(bytes: Uint8Array, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1
  return at
}

/** Not by recursion: a text may be nested a million deep. */
function members(parsed: Json): number {
  const open: Json[] = [parsed]
  let count = 0
  for (let json = open.pop(); json !== undefined; json = open.pop()) {
    if (typeof json !== 'object' || json === null) continue
    const values = Array.isArray(json) ? json : Object.values(json)
    if (!Array.isArray(json)) count += values.length
    for (const value of values) open.push(value)
  }
  return count
}
