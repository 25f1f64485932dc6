/**
 * Maximum nesting. JSON.parse does not recurse, but JSON.stringify and String do: a value that is nested a few thousand
 * deep overflows the stack when it is serialised.
 */
const DEPTH_MAX = 100
const VALUES_MAX = 500_000

/**
 * Parses JSON that another server sent. Returns undefined for text that is not JSON, and for so many or so deeply nested
 * values that parsing would block the event loop: 30 MB of nested brackets take 15 s to parse, measuring them far less.
 */
export function parseUntrustedJson(text: string, { valuesMax = VALUES_MAX } = {}): unknown {
  const { values, depth } = measureJson(Buffer.from(text))
  if (values > valuesMax || depth > DEPTH_MAX) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
/** Tables by byte, for bytes outside of strings: change of depth, and number of values that follow. */
const DEPTH_CHANGES = new Int8Array(256)
const VALUES_AFTER = new Uint8Array(256)
for (const [sign, change] of Object.entries({ '[': 1, '{': 1, ']': -1, '}': -1 }))
  DEPTH_CHANGES[sign.charCodeAt(0)] = change
for (const sign of ',[{') VALUES_AFTER[sign.charCodeAt(0)] = 1

/** Counts members (colons), values and depth of JSON text in linear time, without building objects. */
export function measureJson(bytes: Uint8Array): { colons: number; values: number; depth: number } {
  const counts = { colons: 0, values: 0, depth: 0 }
  let depth = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === QUOTE) {
      at = findStringEnd(bytes, at)
      continue
    }
    if (byte === COLON) counts.colons += 1
    counts.values += VALUES_AFTER[byte] ?? 0
    depth += DEPTH_CHANGES[byte] ?? 0
    if (depth > counts.depth) counts.depth = depth
  }
  return counts
}

/** Returns the position of the quote that ends a string, or a position past the end of the text. */
export function findStringEnd(bytes: Uint8Array, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1
  return at
}

/**
 * Returns true if any object has two members of the same name: then the text has more members (`colons`) than the parsed
 * value. Parsers differ in which member counts, so that the provider could execute another request than the one that was
 * checked. Some parsers ignore case: names of top-level members must differ in more than case and underscores.
 */
export const hasDuplicates = (colons: number, parsed: object): boolean =>
  colons !== countMembers(parsed) || hasDuplicateNames(Object.keys(parsed))

const hasDuplicateNames = (names: readonly string[]): boolean => new Set(names.map(foldName)).size < names.length

/** Folds case in both directions, because two non-ASCII letters fold to ASCII. Google reads `aB` and `a_b` as the same. */
const foldName = (name: string): string => name.toUpperCase().toLowerCase().replaceAll('_', '')

/** Counts members iteratively: untrusted input may be nested a million levels deep. */
function countMembers(parsed: unknown): number {
  const open = [parsed]
  let count = 0
  for (let json = open.pop(); json !== undefined; json = open.pop()) {
    if (typeof json !== 'object' || json === null) continue
    const values = Array.isArray(json) ? json : Object.values(json)
    if (!Array.isArray(json)) count += values.length
    for (const value of values) open.push(value)
  }
  return count
}
