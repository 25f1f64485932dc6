import { type Fields, toText, type Value } from './fields.ts'
import { isEnvName } from './settings.ts'
import type { EnvVar, Template } from './task.ts'
import { parseComposeTemplate, toPlainText } from './template.ts'

/** Parses a string that may contain variables. */
function toTemplate(fields: Fields, value: Value, path: string): Template | undefined {
  const text = toText(value, path, fields.report)
  if (text === undefined) return undefined
  const template = parseComposeTemplate(text)
  if (template === undefined) {
    fields.report.refuse(
      path,
      'unsupported_variable',
      `Unsupported variable. Write $NAME, \${NAME} or \${NAME:-fallback}, and $$ for a dollar sign.`,
    )
  }
  return template
}

/** Parses a string in which variables are not allowed, because they would change the meaning of the task. */
export function toLiteral(fields: Fields, value: Value, path: string): string | undefined {
  const template = toTemplate(fields, value, path)
  const text = template && toPlainText(template)
  if (template && text === undefined) fields.report.refuse(path, 'variable', 'Variables are not allowed here.')
  return text
}

export function readLiteral(fields: Fields, key: string): string | undefined {
  const value = fields.value(key)
  return value === undefined ? undefined : toLiteral(fields, value, `${fields.path}.${key}`)
}

export function readTemplate(fields: Fields, key: string): Template | undefined {
  const value = fields.value(key)
  return value === undefined ? undefined : toTemplate(fields, value, `${fields.path}.${key}`)
}

export const readLiterals = (fields: Fields, key: string): string[] | undefined =>
  fields.list(key, (value, path) => toLiteral(fields, value, path))

/** Reads a list of words, or a string that is split into words as a shell does. */
export function readCommand(fields: Fields, key: string): Template[] | null {
  const value = fields.value(key)
  if (value === undefined) return null
  if (Array.isArray(value)) return fields.list(key, (word, path) => toTemplate(fields, word, path)) ?? []
  const text = readLiteral(fields, key)
  const words = text === undefined ? [] : splitShellWords(text)
  if (words === undefined) fields.refuse(key, 'invalid_value', 'Unterminated quotation mark.')
  return (words ?? []).map((word) => (word === '' ? [] : [word]))
}

/** Matches a word of a command line: unquoted characters, escapes and quoted strings in any order. */
const WORD = /(?:[^\s"'\\]|\\[\s\S]|"(?:[^"\\]|\\[\s\S])*"|'[^']*')+/g
const ESCAPE_OR_QUOTES = /\\([\s\S])|"((?:[^"\\]|\\[\s\S])*)"|'([^']*)'/g

/** Splits a command line into words. Returns undefined for an unterminated quotation mark. */
export function splitShellWords(text: string): string[] | undefined {
  if (/\S/.test(text.replaceAll(WORD, ''))) return undefined
  return [...text.matchAll(WORD)].map(([word]) => word.replaceAll(ESCAPE_OR_QUOTES, unquote))
}

const unquote = (_: string, escaped?: string, double?: string, single?: string): string =>
  // In double quotes, a backslash escapes only these four characters.
  escaped ?? double?.replaceAll(/\\([\\"$`])/g, '$1') ?? single ?? ''

/** Reads environment variables from a table or a list of NAME=value. */
export function readEnvVars(fields: Fields, key: string): EnvVar[] {
  const value = fields.value(key)
  if (value === undefined) return []
  if (Array.isArray(value)) return fields.list(key, (entry, path) => parseAssignment(fields, entry, path)) ?? []
  return (
    fields.table(key, (inner) => inner.keys().flatMap((name) => toEnvVar(inner, name, inner.value(name)) ?? [])) ?? []
  )
}

function parseAssignment(fields: Fields, value: Value, path: string): EnvVar | undefined {
  const text = toText(value, path, fields.report)
  if (text === undefined) return undefined
  const [name = ''] = text.split('=', 1)
  return toEnvVar(fields, name, text === name ? undefined : text.slice(name.length + 1))
}

/** Returns a variable. Without a value, it gets the value from the environment of the program that runs the task. */
function toEnvVar(fields: Fields, name: string, value: Value | undefined): EnvVar | undefined {
  const path = `${fields.path}.${name}`
  if (!isEnvName(name)) fields.report.refuse(path, 'invalid_value', 'Invalid variable name.')
  if (value === undefined) return { name, value: [{ variable: name, fallback: '' }] }
  const template = toTemplate(fields, value, path)
  return template && { name, value: template }
}

const BYTES_PER_UNIT: Record<string, number> = {
  b: 1,
  k: 1024,
  kb: 1024,
  m: 1024 ** 2,
  mb: 1024 ** 2,
  g: 1024 ** 3,
  gb: 1024 ** 3,
}

/** Reads a size such as `512m` or `1gb`, or a number of bytes. Returns megabytes. */
export function readMegabytes(fields: Fields, key: string): number | null {
  const text = readLiteral(fields, key)
  if (text === undefined) return null
  const [, amount = '', unit = ''] = /^(\d{1,15}(?:\.\d{1,6})?)([a-z]*)$/.exec(text.toLowerCase()) ?? []
  const factor = BYTES_PER_UNIT[unit === '' ? 'b' : unit]
  if (amount !== '' && factor) return (Number(amount) * factor) / 1024 ** 2
  fields.refuse(key, 'invalid_value', 'Must be a size such as 512m.')
  return null
}

const SECONDS_PER_UNIT: Record<string, number> = { h: 3600, m: 60, s: 1, ms: 0.001, us: 0.000_001 }

/** Reads a duration such as `1m30s`. Returns seconds. */
export function readSeconds(fields: Fields, key: string): number | undefined {
  const text = readLiteral(fields, key)
  if (text === undefined) return undefined
  const parts = [...text.matchAll(/(\d{1,9}(?:\.\d{1,6})?)(h|ms|us|m|s)/g)]
  if (parts.length > 0 && parts.map(([part]) => part).join('') === text) {
    return parts.reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (SECONDS_PER_UNIT[unit] ?? 0), 0)
  }
  fields.refuse(key, 'invalid_value', 'Must be a duration such as 30s or 1m30s.')
  return undefined
}
