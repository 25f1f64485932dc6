import { html } from 'hono/html'
import type { ReleaseSetting } from '../../src/releases/shapes/schema.ts'
import { truncate } from '../../src/results/text.ts'

/** Escaped markup. */
export type Html = ReturnType<typeof html>

const NAME_MAX = 80

/** Returns untrusted text without control characters and not longer than `max`. Templates escape it. */
export const safeText = (text: string, max = NAME_MAX): string => truncate(text, max)

/** Renders an untrusted name. Its writing direction does not affect the text around it. */
export const name = (text: string, max = NAME_MAX): Html => html`<bdi>${safeText(text, max)}</bdi>`

export const percent = (value: number): string => `${Math.round(value)}\u00a0%`

/** Formats an amount in USD with two significant digits, and at least two decimals below $100. */
export function usd(amount: number): string {
  if (amount === 0) return '$0'
  if (amount >= 100) return `$${Math.round(amount).toLocaleString('en')}`
  if (amount >= 1) return `$${amount.toFixed(2)}`
  const digits = String(Number(amount.toPrecision(2)).toFixed(8)).replace(/0+$/, '')
  return `$${digits.padEnd(4, '0')}`
}

export const interval = ({ low, high }: { low: number; high: number }): string =>
  `${Math.round(low)}–${Math.round(high)}`

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString('en')} ${count === 1 ? one : many}`

const DATE = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' })

export const date = (iso: string): Html => html`<time datetime="${iso}">${DATE.format(new Date(iso))}</time>`

/** Describes the harness and the reasoning level of a setting. */
export const programOf = ({ harness, reasoningLevel }: Pick<ReleaseSetting, 'harness' | 'reasoningLevel'>): Html =>
  html`${name(harness)} · ${name(reasoningLevel)}`

/** Path of the page of a repository. */
export const repositoryPath = (fullName: string): string =>
  `/results/${fullName.toWellFormed().split('/').map(encodeURIComponent).join('/')}`

/** Path of the public API for a repository. */
export const apiPath = (fullName: string): string => `/api/public${repositoryPath(fullName)}`

/** Builds a path with the parameters that are set. */
export function withQuery(path: string, query: Record<string, string | number | undefined>): string {
  const set = Object.entries(query).flatMap(([key, value]): [string, string][] =>
    value === undefined || value === '' ? [] : [[key, String(value).toWellFormed()]],
  )
  return set.length === 0 ? path : `${path}?${new URLSearchParams(set)}`
}
