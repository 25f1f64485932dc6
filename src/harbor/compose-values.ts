import { type Fields, textOf, type Value } from './fields.ts'
import { isEnvName } from './settings.ts'
import type { EnvVar, Template } from './task.ts'
import { composeTemplate, plainText } from './template.ts'

// The kinds of value that compose files have and others do not.

/** A text with variables in it. */
function templateOf(fields: Fields, value: Value, path: string): Template | undefined {
  const text = textOf(value, path, fields.report)
  if (text === undefined) return undefined
  const found = composeTemplate(text)
  if (found === undefined) {
    fields.report.refuse(
      path,
      'unsupported_variable',
      `We read $NAME, \${NAME} and \${NAME:-fallback}; $$ is a dollar.`,
    )
  }
  return found
}

/** A text in which a variable would change what the task is. */
export function literalOf(fields: Fields, value: Value, path: string): string | undefined {
  const found = templateOf(fields, value, path)
  const text = found && plainText(found)
  if (found && text === undefined) fields.report.refuse(path, 'variable', 'No variable can stand here.')
  return text
}

export function literal(fields: Fields, key: string): string | undefined {
  const value = fields.value(key)
  return value === undefined ? undefined : literalOf(fields, value, `${fields.path}.${key}`)
}

export function template(fields: Fields, key: string): Template | undefined {
  const value = fields.value(key)
  return value === undefined ? undefined : templateOf(fields, value, `${fields.path}.${key}`)
}

export const literals = (fields: Fields, key: string): string[] | undefined =>
  fields.list(key, (value, path) => literalOf(fields, value, path))

/** A list of words, or a text that is split into words as a shell does. */
export function command(fields: Fields, key: string): Template[] | null {
  const value = fields.value(key)
  if (value === undefined) return null
  if (Array.isArray(value)) return fields.list(key, (word, path) => templateOf(fields, word, path)) ?? []
  const text = literal(fields, key)
  const words = text === undefined ? [] : shellWords(text)
  if (words === undefined) fields.refuse(key, 'invalid_value', 'A quotation mark is left open.')
  return (words ?? []).map((word) => (word === '' ? [] : [word]))
}

const WORD = /(?:[^\s"'\\]|\\[\s\S]|"(?:[^"\\]|\\[\s\S])*"|'[^']*')+/g
const PIECE = /\\([\s\S])|"((?:[^"\\]|\\[\s\S])*)"|'([^']*)'/g

/** Undefined when a quotation mark is left open. */
export function shellWords(text: string): string[] | undefined {
  if (/\S/.test(text.replaceAll(WORD, ''))) return undefined
  return [...text.matchAll(WORD)].map(([word]) => word.replaceAll(PIECE, unquoted))
}

const unquoted = (_: string, escaped?: string, double?: string, single?: string): string =>
  escaped ?? double?.replaceAll(/\\([\\"$`])/g, '$1') ?? single ?? ''

/** A table, or a list of NAME=value. */
export function environment(fields: Fields, key: string): EnvVar[] {
  const value = fields.value(key)
  if (value === undefined) return []
  if (Array.isArray(value)) return fields.list(key, (entry, path) => assignment(fields, entry, path)) ?? []
  return (
    fields.table(key, (inner) => inner.keys().flatMap((name) => variable(inner, name, inner.value(name)) ?? [])) ?? []
  )
}

function assignment(fields: Fields, value: Value, path: string): EnvVar | undefined {
  const text = textOf(value, path, fields.report)
  if (text === undefined) return undefined
  const [name = ''] = text.split('=', 1)
  return variable(fields, name, text === name ? undefined : text.slice(name.length + 1))
}

/** A name without a value is handed through from whoever runs the task. */
function variable(fields: Fields, name: string, value: Value | undefined): EnvVar | undefined {
  const path = `${fields.path}.${name}`
  if (!isEnvName(name)) fields.report.refuse(path, 'invalid_value', 'This cannot be the name of a variable.')
  if (value === undefined) return { name, value: [{ variable: name, fallback: '' }] }
  const found = templateOf(fields, value, path)
  return found && { name, value: found }
}

const UNITS: Record<string, number> = {
  b: 1,
  k: 1024,
  kb: 1024,
  m: 1024 ** 2,
  mb: 1024 ** 2,
  g: 1024 ** 3,
  gb: 1024 ** 3,
}

/** `512m`, `1gb` or a number of bytes, in megabytes. */
export function megabytes(fields: Fields, key: string): number | null {
  const text = literal(fields, key)
  if (text === undefined) return null
  const [, amount = '', unit = ''] = /^(\d{1,15}(?:\.\d{1,6})?)([a-z]*)$/.exec(text.toLowerCase()) ?? []
  const factor = UNITS[unit === '' ? 'b' : unit]
  if (amount !== '' && factor) return (Number(amount) * factor) / 1024 ** 2
  fields.refuse(key, 'invalid_value', 'A size like 512m is expected here.')
  return null
}

const SECONDS: Record<string, number> = { h: 3600, m: 60, s: 1, ms: 0.001, us: 0.000_001 }

/** `1m30s`, in seconds. */
export function seconds(fields: Fields, key: string): number | undefined {
  const text = literal(fields, key)
  if (text === undefined) return undefined
  const parts = [...text.matchAll(/(\d{1,9}(?:\.\d{1,6})?)(h|ms|us|m|s)/g)]
  if (parts.length > 0 && parts.map(([part]) => part).join('') === text) {
    return parts.reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (SECONDS[unit] ?? 0), 0)
  }
  fields.refuse(key, 'invalid_value', 'A time like 30s or 1m30s is expected here.')
  return undefined
}
