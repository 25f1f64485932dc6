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
const [OTHER, MEMBER, VALUE] = [0, 1, 2]
const KINDS = new Uint8Array(256).fill(OTHER)
KINDS.set([MEMBER], ':'.charCodeAt(0))
for (const sign of ',[{') KINDS.set([VALUE], sign.charCodeAt(0))

const countOne = (counts: Uint32Array, kind: number): void => {
  counts[kind] = (counts[kind] ?? 0) + 1
}

/** What a text holds outside of its strings, before anyone makes objects of it: a colon for each member. */
export function countsOf(bytes: Uint8Array): { colons: number; values: number } {
  const counts = new Uint32Array(3)
  let inString = false
  let isEscaped = false
  for (const byte of bytes) {
    if (isEscaped) isEscaped = false
    else if (byte === QUOTE) inString = !inString
    else if (inString) isEscaped = byte === BACKSLASH
    else countOne(counts, KINDS[byte] ?? OTHER)
  }
  const [, colons = 0, values = 0] = counts
  return { colons, values }
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
