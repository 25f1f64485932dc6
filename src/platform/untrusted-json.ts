/**
 * Maximum nesting. JSON.parse does not recurse, but JSON.stringify and String do: a value that is nested a few thousand
 * deep overflows the stack when it is serialised.
 */
const DEPTH_MAX = 100
const VALUES_MAX = 500_000

/**
 * Parses JSON that another server sent. Returns undefined for text that is not JSON, and for so many or so deeply nested
 * values that parsing would block the event loop: 30 MB of nested brackets take 15 s to parse, and this scan ends at once.
 */
export function parseUntrustedJson(text: string, { valuesMax = VALUES_MAX } = {}): unknown {
  if (isExcessive(text, valuesMax)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** Tables by character code, for characters outside of strings: change of depth, and number of values that follow. */
const NESTING_CHANGE = new Int8Array(128)
const VALUE_COUNT = new Uint8Array(128)
for (const [sign, change] of Object.entries({ '[': 1, '{': 1, ']': -1, '}': -1 }))
  NESTING_CHANGE[sign.charCodeAt(0)] = change
for (const sign of ',[{') VALUE_COUNT[sign.charCodeAt(0)] = 1

/** Scans the text before anything is allocated. Signs within strings do not count. */
function isExcessive(text: string, valuesMax: number): boolean {
  let depth = 0
  let values = 0
  for (let at = 0; at < text.length && depth <= DEPTH_MAX && values <= valuesMax; at += 1) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = findStringEnd(text, at)
    depth += NESTING_CHANGE[code] ?? 0
    values += VALUE_COUNT[code] ?? 0
  }
  return depth > DEPTH_MAX || values > valuesMax
}

/** Returns the position of the closing quote, or a position past the end of the text. */
function findStringEnd(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at
}
