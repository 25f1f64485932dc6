import { parse, TomlDate, TomlError, type TomlTable, type TomlValue } from 'smol-toml'
import { suggestName } from '../platform/suggestion.ts'
import type { FileDialect } from './fields.ts'
import { NESTING_MAX } from './limits.ts'
import type { Report } from './report.ts'
import type { TaskJson } from './task.ts'

/** Harbor ignores unknown keys, so a warning is the only sign of a misspelt key. */
export const TOML_DIALECT: FileDialect = {
  unknownKey(path, report, known) {
    const suggestion = suggestName(path.slice(path.lastIndexOf('.') + 1), known) || ' Check the spelling.'
    report.warn(path, 'unknown_key', `Unknown key, which Harbor ignores.${suggestion}`)
  },
  scalarsAsStrings: 'warn',
}

/** Characters whose number determines the parsing time, whatever the size of the file. */
const MARKS = new Set([...'=[{\n'].map((mark) => mark.charCodeAt(0)))
const MARKS_MAX = 20_000
const DOT = '.'.charCodeAt(0)
const DOTS_MAX = 50_000

/** Parses TOML into plain JSON values. Returns undefined, with a refusal in the report, if it is invalid. */
export function parseToml(text: string, path: string, report: Report): { [key: string]: TaskJson } | undefined {
  if (isTooComplex(text)) {
    report.refuse(
      path,
      'too_complex',
      `The file has more than ${MARKS_MAX} keys, tables and lines, more than ${DOTS_MAX} dots, or a number that is too long.`,
    )
    return undefined
  }
  try {
    const table = parse(text, { integersAsBigInt: 'asNeeded', maxDepth: NESTING_MAX })
    return toPlainTable(table, 1)
  } catch (error) {
    if (!(error instanceof TomlError || error instanceof TooDeep)) throw error
    report.refuse(path, error instanceof TooDeep ? 'too_deep' : 'toml_syntax', formatSyntaxError(error))
    return undefined
  }
}

/** Parsing a number takes quadratic time in its length. */
const LONG_NUMBER = /[\d_]{64}/

function isTooComplex(text: string): boolean {
  let marks = 0
  let dots = 0
  for (let index = 0; index < text.length; index++) {
    const character = text.charCodeAt(index)
    if (MARKS.has(character)) marks++
    else if (character === DOT) dots++
  }
  return marks > MARKS_MAX || dots > DOTS_MAX || LONG_NUMBER.test(text)
}

class TooDeep extends Error {}

function toPlainTable(table: TomlTable, depth: number): { [key: string]: TaskJson } {
  if (depth > NESTING_MAX) throw new TooDeep(`Tables and lists are nested more than ${NESTING_MAX} levels deep.`)
  // fromEntries makes a key __proto__ an ordinary key.
  return Object.fromEntries(Object.entries(table).map(([key, value]) => [key, toPlainValue(value, depth)]))
}

/** Converts a TOML value to JSON. Dates and numbers that JSON cannot represent become strings. */
function toPlainValue(value: TomlValue, depth: number): TaskJson {
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return toPlainNumber(value)
  if (typeof value === 'bigint') return String(value)
  if (value instanceof TomlDate) return value.toISOString()
  if (isTable(value)) return toPlainTable(value, depth + 1)
  if (!Array.isArray(value)) return String(value)
  if (depth >= NESTING_MAX) throw new TooDeep(`Tables and lists are nested more than ${NESTING_MAX} levels deep.`)
  return value.map((entry) => toPlainValue(entry, depth + 1))
}

function toPlainNumber(value: number): number | string {
  if (Number.isNaN(value) || Math.abs(value) > Number.MAX_SAFE_INTEGER) return String(value)
  return value === 0 ? 0 : value // never -0, which JSON does not keep
}

const isTable = (value: TomlValue): value is TomlTable => Object.getPrototypeOf(value) === null

/** Formats a syntax error in one line. The library's message includes a drawing of the location. */
const formatSyntaxError = (error: TomlError | TooDeep): string => {
  const [message = ''] = error.message.split('\n')
  if (!('line' in error)) return message
  return `Line ${error.line}, column ${error.column}: ${message.replace('Invalid TOML document: ', '')}.`
}
