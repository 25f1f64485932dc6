import type { Report } from './report.ts'
import type { Json } from './task.ts'

/** A value as a file gives it. In YAML we read every scalar as a text. */
export type Value = null | string | number | boolean | Value[] | ValueTable
export type ValueTable = { [key: string]: Value }

type Bounds = { min?: number; above?: number; max?: number; integer?: true }

/** How one kind of file is read. */
export type Dialect = {
  /** What to do with a key that nobody asked for. */
  unknownKey(path: string, report: Report): void
  /** Whether a number may be written as a text. */
  numberInText: 'silently' | 'with a warning'
}

type Place = { path: string; report: Report; dialect: Dialect }

/**
 * Reads a table key by key. A wrong value is reported and then treated as absent: reading goes on, and in the end the
 * task is refused with all that was found.
 */
export type Fields = {
  path: string
  report: Report
  keys(): string[]
  has(key: string): boolean
  value(key: string): Value | undefined
  text(key: string): string | undefined
  requiredText(key: string): string
  number(key: string, bounds?: Bounds): number | undefined
  flag(key: string): boolean | undefined
  oneOf<const T extends string>(key: string, options: readonly T[]): T | undefined
  texts(key: string): string[] | undefined
  list<T>(key: string, read: (value: Value, path: string) => T | undefined): T[] | undefined
  table<T>(key: string, read: (fields: Fields) => T): T | undefined
  /** A table that may be left out, which is the same as an empty one. */
  section<T>(key: string, read: (fields: Fields) => T): T
  tables<T>(key: string, read: (fields: Fields) => T): T[] | undefined
  /** A value of a list as a table. */
  open<T>(value: Value, path: string, read: (fields: Fields) => T): T | undefined
  refuse(key: string, code: string, message: string): void
  warn(key: string, code: string, message: string): void
}

/** What is in the table by the reader's account; the keys that it did not ask for are named. */
export function readTable<T>(table: ValueTable, place: Place, read: (fields: Fields) => T): T {
  const asked = new Set<string>()
  const result = read(fieldsOf(table, place, asked))
  for (const key of Object.keys(table)) {
    if (!asked.has(key)) place.dialect.unknownKey(join(place.path, key), place.report)
  }
  return result
}

function fieldsOf(table: ValueTable, place: Place, asked: Set<string>): Fields {
  const { report } = place
  const at = (key: string) => join(place.path, key)
  const value = (key: string) => {
    asked.add(key)
    return Object.hasOwn(table, key) ? (table[key] ?? undefined) : undefined
  }
  const read = <T>(key: string, convert: (value: Value, path: string) => T | undefined) => {
    const found = value(key)
    return found === undefined ? undefined : convert(found, at(key))
  }
  const fields: Fields = {
    path: place.path,
    report,
    value,
    keys: () => Object.keys(table),
    has: (key) => value(key) !== undefined,
    text: (key) => read(key, (found, path) => textOf(found, path, report)),
    requiredText(key) {
      if (!fields.has(key)) report.refuse(at(key), 'required', 'This key is needed.')
      return fields.text(key) ?? ''
    },
    number: (key, bounds = {}) => read(key, (found, path) => numberOf(found, { ...place, path }, bounds)),
    flag: (key) => read(key, (found, path) => flagOf(found, { ...place, path })),
    oneOf: (key, options) => read(key, (found, path) => optionOf(found, options, path, report)),
    texts: (key) => fields.list(key, (found, path) => textOf(found, path, report)),
    list: (key, readEntry) => read(key, (found, path) => listOf(found, readEntry, path, report)),
    open: (found, path, readInner) => tableOf(found, { ...place, path }, readInner),
    table: (key, readInner) => read(key, (found, path) => fields.open(found, path, readInner)),
    section: (key, readInner) => fields.table(key, readInner) ?? readTable({}, { ...place, path: at(key) }, readInner),
    tables: (key, readInner) => fields.list(key, (found, path) => fields.open(found, path, readInner)),
    refuse: (key, code, message) => report.refuse(at(key), code, message),
    warn: (key, code, message) => report.warn(at(key), code, message),
  }
  return fields
}

const join = (path: string, key: string | number): string => (path === '' ? String(key) : `${path}.${key}`)

export const isTable = (value: Value | Json | undefined): value is ValueTable =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function tableOf<T>(value: Value, place: Place, read: (fields: Fields) => T): T | undefined {
  if (isTable(value)) return readTable(value, place, read)
  place.report.refuse(place.path, 'wrong_type', 'A table is expected here.')
  return undefined
}

export function textOf(value: Value, path: string, report: Report): string | undefined {
  if (typeof value !== 'string') report.refuse(path, 'wrong_type', 'A text is expected here.')
  else if (value.includes('\0')) report.refuse(path, 'invalid_value', 'A text has no NUL character.')
  else return value
  return undefined
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
const NUMBER_LENGTH_MAX = 40

function numberOf(value: Value, { path, report, dialect }: Place, bounds: Bounds): number | undefined {
  const found = typeof value === 'string' && isNumeral(value) ? Number(value) : value
  if (typeof found !== 'number' || !Number.isFinite(found)) {
    report.refuse(path, 'wrong_type', 'A finite number is expected here.')
    return undefined
  }
  if (typeof value === 'string' && dialect.numberInText === 'with a warning') {
    report.warn(path, 'number_in_text', 'This number is written as a text.')
  }
  const complaint = outside(found, bounds)
  if (complaint === undefined) return found === 0 ? 0 : found // never -0, which TOML would not give back
  report.refuse(path, 'out_of_range', complaint)
  return undefined
}

const isNumeral = (text: string): boolean => text.length <= NUMBER_LENGTH_MAX && NUMBER.test(text)

function outside(value: number, { min, above, max, integer }: Bounds): string | undefined {
  if (integer && !Number.isSafeInteger(value)) return 'A whole number is expected here.'
  if (min !== undefined && value < min) return `The least is ${min}.`
  if (above !== undefined && value <= above) return `More than ${above} is expected here.`
  if (max !== undefined && value > max) return `The most is ${max}.`
  return undefined
}

function flagOf(value: Value, { path, report, dialect }: Place): boolean | undefined {
  if (typeof value === 'boolean') return value
  if (dialect.numberInText === 'silently' && (value === 'true' || value === 'false')) return value === 'true'
  report.refuse(path, 'wrong_type', 'true or false is expected here.')
  return undefined
}

function optionOf<T extends string>(value: Value, options: readonly T[], path: string, report: Report): T | undefined {
  const found = options.find((option) => option === value)
  if (found === undefined) report.refuse(path, 'invalid_value', `One of ${options.join(', ')} is expected here.`)
  return found
}

/** Of hosts, artifacts, steps and the like. */
const ENTRIES_MAX = 1000

function listOf<T>(
  value: Value,
  read: (value: Value, path: string) => T | undefined,
  path: string,
  report: Report,
): T[] | undefined {
  if (!Array.isArray(value)) {
    report.refuse(path, 'wrong_type', 'A list is expected here.')
    return undefined
  }
  if (value.length > ENTRIES_MAX) {
    report.refuse(path, 'too_many', `The most is ${ENTRIES_MAX} entries.`)
    return undefined
  }
  return value.map((entry, place) => read(entry, join(path, place))).filter((entry) => entry !== undefined)
}
