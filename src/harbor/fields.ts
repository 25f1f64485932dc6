import type { Report } from './report.ts'
import type { TaskJson } from './task.ts'

/** A value of a parsed file. YAML scalars are always strings. */
export type Value = null | string | number | boolean | Value[] | ValueTable
export type ValueTable = { [key: string]: Value }

type NumberBounds = { min?: number; above?: number; max?: number; integer?: true }

/** Rules that differ between file formats. */
export type FileDialect = {
  /** Called for each key that no reader accessed. `known` lists names to suggest. */
  unknownKey(path: string, report: Report, known: readonly string[]): void
  /** Treatment of numbers that are written as strings. With `accept`, `true` and `false` may be strings too. */
  scalarsAsStrings: 'accept' | 'warn'
}

type TableContext = { path: string; report: Report; dialect: FileDialect }

/**
 * Reads a table key by key. An invalid value is added to the report and then treated as absent, so that reading continues
 * and the author sees all problems at once.
 */
export type Fields = {
  path: string
  report: Report
  keys(): string[]
  has(key: string): boolean
  value(key: string): Value | undefined
  text(key: string): string | undefined
  requiredText(key: string): string
  number(key: string, bounds?: NumberBounds): number | undefined
  flag(key: string): boolean | undefined
  oneOf<const T extends string>(key: string, options: readonly T[]): T | undefined
  texts(key: string): string[] | undefined
  list<T>(key: string, read: (value: Value, path: string) => T | undefined): T[] | undefined
  table<T>(key: string, read: (fields: Fields) => T): T | undefined
  /** Reads a table that may be omitted, which is equivalent to an empty one. */
  section<T>(key: string, read: (fields: Fields) => T): T
  tables<T>(key: string, read: (fields: Fields) => T): T[] | undefined
  /** Reads an entry of a list as a table. */
  entryTable<T>(value: Value, path: string, read: (fields: Fields) => T): T | undefined
  refuse(key: string, code: string, message: string): void
  warn(key: string, code: string, message: string): void
}

/** Reads a table with `read` and then reports the keys that were not accessed. */
export function readTable<T>(table: ValueTable, context: TableContext, read: (fields: Fields) => T): T {
  const accessed = new Set<string>()
  const result = read(createFields(table, context, accessed))
  const unknown = Object.keys(table).filter((key) => !accessed.has(key))
  const known = unknown.length <= SUGGESTED_MAX ? [...accessed] : []
  for (const key of unknown) context.dialect.unknownKey(join(context.path, key), context.report, known)
  return result
}

/** A table with more unknown keys gets no suggestions, which take time for each of them. */
const SUGGESTED_MAX = 50

function createFields(table: ValueTable, context: TableContext, accessed: Set<string>): Fields {
  const { report } = context
  const at = (key: string) => join(context.path, key)
  const value = (key: string) => {
    accessed.add(key)
    return Object.hasOwn(table, key) ? (table[key] ?? undefined) : undefined
  }
  const read = <T>(key: string, convert: (value: Value, path: string) => T | undefined) => {
    const raw = value(key)
    return raw === undefined ? undefined : convert(raw, at(key))
  }
  const fields: Fields = {
    path: context.path,
    report,
    value,
    keys: () => Object.keys(table),
    has: (key) => value(key) !== undefined,
    text: (key) => read(key, (raw, path) => toText(raw, path, report)),
    requiredText(key) {
      if (!fields.has(key)) report.refuse(at(key), 'required', 'Required key is missing.')
      return fields.text(key) ?? ''
    },
    number: (key, bounds = {}) => read(key, (raw, path) => toNumber(raw, { ...context, path }, bounds)),
    flag: (key) => read(key, (raw, path) => toFlag(raw, { ...context, path })),
    oneOf: (key, options) => read(key, (raw, path) => toOption(raw, options, path, report)),
    texts: (key) => fields.list(key, (raw, path) => toText(raw, path, report)),
    list: (key, readEntry) => read(key, (raw, path) => toList(raw, readEntry, path, report)),
    entryTable: (raw, path, readInner) => toTable(raw, { ...context, path }, readInner),
    table: (key, readInner) => read(key, (raw, path) => fields.entryTable(raw, path, readInner)),
    section: (key, readInner) =>
      fields.table(key, readInner) ?? readTable({}, { ...context, path: at(key) }, readInner),
    tables: (key, readInner) => fields.list(key, (raw, path) => fields.entryTable(raw, path, readInner)),
    refuse: (key, code, message) => report.refuse(at(key), code, message),
    warn: (key, code, message) => report.warn(at(key), code, message),
  }
  return fields
}

const join = (path: string, key: string | number): string => (path === '' ? String(key) : `${path}.${key}`)

export const isTable = (value: Value | TaskJson | undefined): value is ValueTable =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function toTable<T>(value: Value, context: TableContext, read: (fields: Fields) => T): T | undefined {
  if (isTable(value)) return readTable(value, context, read)
  context.report.refuse(context.path, 'wrong_type', 'Must be a table.')
  return undefined
}

export function toText(value: Value, path: string, report: Report): string | undefined {
  if (typeof value !== 'string') report.refuse(path, 'wrong_type', 'Must be a string.')
  else if (value.includes('\0')) report.refuse(path, 'invalid_value', 'Must not contain a NUL character.')
  else return value
  return undefined
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
const NUMBER_LENGTH_MAX = 40

function toNumber(value: Value, { path, report, dialect }: TableContext, bounds: NumberBounds): number | undefined {
  const raw = typeof value === 'string' && isNumeral(value) ? Number(value) : value
  if (typeof raw !== 'number' || !Number.isFinite(raw)) {
    report.refuse(path, 'wrong_type', 'Must be a finite number.')
    return undefined
  }
  if (typeof value === 'string' && dialect.scalarsAsStrings === 'warn') {
    report.warn(path, 'number_in_text', 'The number is written as a string.')
  }
  const problem = checkBounds(raw, bounds)
  if (problem === undefined) return raw === 0 ? 0 : raw // never -0, which TOML cannot represent
  report.refuse(path, 'out_of_range', problem)
  return undefined
}

const isNumeral = (text: string): boolean => text.length <= NUMBER_LENGTH_MAX && NUMBER.test(text)

function checkBounds(value: number, { min, above, max, integer }: NumberBounds): string | undefined {
  if (integer && !Number.isSafeInteger(value)) return 'Must be an integer.'
  if (min !== undefined && value < min) return `Must be at least ${min}.`
  if (above !== undefined && value <= above) return `Must be greater than ${above}.`
  if (max !== undefined && value > max) return `Must be at most ${max}.`
  return undefined
}

function toFlag(value: Value, { path, report, dialect }: TableContext): boolean | undefined {
  if (typeof value === 'boolean') return value
  if (dialect.scalarsAsStrings === 'accept' && (value === 'true' || value === 'false')) return value === 'true'
  report.refuse(path, 'wrong_type', 'Must be true or false.')
  return undefined
}

function toOption<T extends string>(value: Value, options: readonly T[], path: string, report: Report): T | undefined {
  const raw = options.find((option) => option === value)
  if (raw === undefined) report.refuse(path, 'invalid_value', `Must be one of ${options.join(', ')}.`)
  return raw
}

/** Maximum length of any list, such as hosts, artifacts or steps. */
const ENTRIES_MAX = 1000

function toList<T>(
  value: Value,
  read: (value: Value, path: string) => T | undefined,
  path: string,
  report: Report,
): T[] | undefined {
  if (!Array.isArray(value)) {
    report.refuse(path, 'wrong_type', 'Must be a list.')
    return undefined
  }
  if (value.length > ENTRIES_MAX) {
    report.refuse(path, 'too_many', `The limit is ${ENTRIES_MAX} entries.`)
    return undefined
  }
  return value.map((entry, index) => read(entry, join(path, index))).filter((entry) => entry !== undefined)
}
