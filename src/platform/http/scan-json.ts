import { malformedBody, Problem } from '../problem.ts'

const DEPTH_MAX = 64
const VALUES_MAX = 200_000
/** Validation reports every unknown key, which takes long for many of them. */
const KEYS_MAX = 1_000

const [QUOTE, BACKSLASH, COMMA, OPEN_BRACE, OPEN_BRACKET, CLOSE_BRACE, CLOSE_BRACKET] = Buffer.from('"\\,{[}]')

/** An object or array that is open where the scan is. `at` is the current key or index, undefined before a key. */
type OpenValue = { keys: Set<string> | undefined; at: string | number | undefined }

/**
 * Refuses JSON in one pass before it is parsed. So many or so deeply nested values that parsing would block the event loop
 * for long are refused: a body of 2 MiB that is nested a million deep takes a second to parse, this scan a few
 * milliseconds. Duplicate keys are refused because parsers disagree on which one counts.
 */
export function requireScannable(bytes: Buffer): void {
  const path: OpenValue[] = []
  let values = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === QUOTE) at = scanString(bytes, at, path)
    else if (byte === COMMA) {
      values += 1
      moveOn(path.at(-1))
    } else updatePath(path, byte)
    if (path.length > DEPTH_MAX) throw new Problem(malformedBody, `The body is nested deeper than ${DEPTH_MAX} levels.`)
  }
  if (values > VALUES_MAX) throw new Problem(malformedBody, `The body has more than ${VALUES_MAX} values.`)
}

/** Returns the position of the closing quote. A string that is a key is added to its object. */
function scanString(bytes: Buffer, start: number, path: readonly OpenValue[]): number {
  const end = findStringEnd(bytes, start)
  if (isBeforeKey(path.at(-1))) addKey(path, decodeKey(bytes, start + 1, end))
  return end
}

function findStringEnd(bytes: Buffer, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1
  return at
}

const isBeforeKey = (value: OpenValue | undefined): boolean => value?.keys !== undefined && value.at === undefined

function moveOn(value: OpenValue | undefined): void {
  if (value) value.at = typeof value.at === 'number' ? value.at + 1 : undefined
}

function updatePath(path: OpenValue[], byte: number | undefined): void {
  if (byte === OPEN_BRACE) path.push({ keys: new Set(), at: undefined })
  else if (byte === OPEN_BRACKET) path.push({ keys: undefined, at: 0 })
  else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) path.pop()
}

/** Decodes a key, so that two spellings of it are recognised as one. The parser reports malformed escapes. */
function decodeKey(bytes: Buffer, start: number, end: number): string {
  const raw = bytes.toString('utf8', start, end)
  if (!raw.includes('\\')) return raw
  try {
    return String(JSON.parse(`"${raw}"`))
  } catch {
    return raw
  }
}

function addKey(path: readonly OpenValue[], key: string): void {
  const object = path.at(-1)
  if (!object?.keys) return
  object.at = key
  if (!object.keys.has(key)) {
    object.keys.add(key)
    if (object.keys.size > KEYS_MAX)
      throw new Problem(malformedBody, `An object in the body has more than ${KEYS_MAX} keys.`)
    return
  }
  const message = 'The key occurs more than once in its object. Send it once.'
  throw new Problem(malformedBody, `The body has a duplicate key: ${toPointer(path)}`, {
    errors: [{ pointer: toPointer(path), code: 'duplicate_key', message }],
  })
}

const toPointer = (path: readonly OpenValue[]): string =>
  path.map(({ at }) => `/${String(at).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
