import { parse, TomlDate, TomlError, type TomlTable, type TomlValue } from 'smol-toml'
import type { Dialect } from './fields.ts'
import { DEPTH_MAX } from './limits.ts'
import type { Report } from './report.ts'
import type { Json } from './task.ts'

/** Harbor ignores what it does not know, so a spelling mistake would go unnoticed without a word from us. */
export const TOML: Dialect = {
  unknownKey: (path, report) => report.warn(path, 'unknown_key', 'Harbor ignores this key. Is it a spelling mistake?'),
  numberInText: 'with a warning',
}

/** As many of these as a file has, as long does it take to parse, whatever its size. */
const MARKS = new Set([...'=[{\n'].map((mark) => mark.charCodeAt(0)))
const MARKS_MAX = 20_000
const DOTS_MAX = 50_000

/** The table in a TOML text. Undefined when it is none; the report has the reason. */
export function parseToml(text: string, path: string, report: Report): { [key: string]: Json } | undefined {
  if (isTooBusy(text)) {
    report.refuse(path, 'too_complex', `It has more than ${MARKS_MAX} keys, tables and lines, or a number without end.`)
    return undefined
  }
  try {
    const table = parse(text, { integersAsBigInt: 'asNeeded', maxDepth: DEPTH_MAX })
    return plainTable(table, 1)
  } catch (error) {
    if (!(error instanceof TomlError || error instanceof TooDeep)) throw error
    report.refuse(path, error instanceof TooDeep ? 'too_deep' : 'toml_syntax', syntaxMessage(error))
    return undefined
  }
}

/** To read a number takes the square of its length. */
const LONG_NUMBER = /[\d_]{64}/

function isTooBusy(text: string): boolean {
  let marks = 0
  let dots = 0
  for (let place = 0; place < text.length; place++) {
    const character = text.charCodeAt(place)
    if (MARKS.has(character)) marks++
    else if (character === 0x2e) dots++
  }
  return marks > MARKS_MAX || dots > DOTS_MAX || LONG_NUMBER.test(text)
}

class TooDeep extends Error {}

function plainTable(table: TomlTable, depth: number): { [key: string]: Json } {
  if (depth > DEPTH_MAX) throw new TooDeep(`Tables and lists stand more than ${DEPTH_MAX} deep in each other.`)
  // fromEntries makes a key __proto__ an ordinary key.
  return Object.fromEntries(Object.entries(table).map(([key, value]) => [key, plain(value, depth)]))
}

/** Times and numbers that JSON does not have become texts, so that a task can be stored as JSON. */
function plain(value: TomlValue, depth: number): Json {
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value + 0 : String(value)
  if (typeof value === 'bigint') return String(value)
  if (value instanceof TomlDate) return value.toISOString()
  if (isTable(value)) return plainTable(value, depth + 1)
  if (!Array.isArray(value)) return String(value)
  if (depth >= DEPTH_MAX) throw new TooDeep(`Tables and lists stand more than ${DEPTH_MAX} deep in each other.`)
  return value.map((entry) => plain(entry, depth + 1))
}

const isTable = (value: TomlValue): value is TomlTable => Object.getPrototypeOf(value) === null

/** The library's message goes on with a drawing of the place. */
const syntaxMessage = (error: TomlError | TooDeep): string => {
  const [message = ''] = error.message.split('\n')
  if (!('line' in error)) return message
  return `Line ${error.line}, column ${error.column}: ${message.replace('Invalid TOML document: ', '')}.`
}
