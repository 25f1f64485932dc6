import { html } from 'hono/html'
import type { ReleaseSetting } from '../../src/releases/shapes/schema.ts'
import { truncate } from '../../src/results/text.ts'
import HARNESS_NAMES from './harness-names.gen.json' with { type: 'json' }

/** Markup in which untrusted text is escaped. */
export type Html = ReturnType<typeof html>

const NAME_MAX = 80

/** Returns untrusted text without control characters and not longer than `max`. Templates escape it. */
export const safeText = (text: string, max = NAME_MAX): string => truncate(text, max)

/** Renders an untrusted name. Its writing direction does not affect the text around it. */
export const renderName = (text: string, max = NAME_MAX): Html => html`<bdi>${safeText(text, max)}</bdi>`

/** Formats a number of percent without decimals: `72 %`. */
export const percent = (value: number): string => `${Math.round(value)}\u00a0%`

/** Formats an amount in USD: whole dollars from $100 on, cents from $1 on, two significant digits below. */
export function usd(amount: number): string {
  if (amount === 0) return '$0'
  if (amount >= 100) return `$${formatCount(Math.round(amount))}`
  if (amount >= 1) return `$${amount.toFixed(2)}`
  const withoutTrailingZeros = Number(amount.toPrecision(2)).toFixed(8).replace(/0+$/, '')
  return `$${withoutTrailingZeros.padEnd('0.00'.length, '0')}`
}

/** Formats an interval of percentages: `61–83`. */
export const formatInterval = ({ low, high }: { low: number; high: number }): string =>
  `${Math.round(low)}–${Math.round(high)}`

/** Formats a difference with its sign. */
export function formatDifference(difference: number): string {
  if (difference === 0) return '±0'
  return difference > 0 ? `+${difference}` : `−${-difference}`
}

/** Formats a whole number with commas: `12,345`. */
export const formatCount = (count: number): string => String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',')

/** Formats a count with its noun: `1 task`, `5 tasks`. */
export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${formatCount(count)} ${count === 1 ? one : many}`

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** Formats a date: `16 Nov 2026`. The first use of `Intl` would take a browser about 20 ms. */
export function formatDate(iso: string): string {
  const time = new Date(iso)
  return `${time.getUTCDate()} ${MONTHS[time.getUTCMonth()]} ${time.getUTCFullYear()}`
}

export const renderDate = (iso: string): Html => html`<time datetime="${iso}">${formatDate(iso)}</time>`

/** Formats a point in time: `16 Nov 2026, 21:33 UTC`. */
export const formatDateTime = (iso: string): string => `${formatDate(iso)}, ${iso.slice(11, 16)}\u00a0UTC`

export const renderDateTime = (iso: string): Html => html`<time datetime="${iso}">${formatDateTime(iso)}</time>`

/** Formats a duration with its two largest units: `6 min 10 s`. */
export function formatDuration(seconds: number): string {
  const whole = Math.round(seconds)
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60]
  if (hours > 0) return `${hours}\u00a0h ${minutes}\u00a0min`
  return minutes > 0 ? `${minutes}\u00a0min ${rest}\u00a0s` : `${rest}\u00a0s`
}

const TIMEOUTS = 'timeouts*'

/** Returns the parts of a setting id. `configuration` and `timeLimits` are empty if the id does not have them. */
export function parseSettingId(id: string) {
  const [catalogId = '', harness = '', level = '', ...rest] = id.split('|')
  const configuration = rest.find((part) => !part.startsWith(TIMEOUTS)) ?? ''
  const multiplier = rest.find((part) => part.startsWith(TIMEOUTS))?.slice(TIMEOUTS.length)
  const timeLimits = multiplier === undefined ? '' : `time limits × ${multiplier}`
  return { catalogId, provider: catalogId.split('/')[0] ?? '', harness, level, configuration, timeLimits }
}

const harnessNames = new Map<string, string>(Object.entries(HARNESS_NAMES))

/** Returns the name of a built-in harness, or the id of any other. */
export const nameHarness = (id: string): string => harnessNames.get(id) ?? id

/** Returns the name of a reasoning level as part of a description. */
export const nameLevel = (level: string): string => (level === 'none' ? 'no reasoning' : level)

/** The parts of a setting besides its model. */
type SettingProgram = Pick<ReleaseSetting, 'id' | 'harness' | 'reasoningLevel'>

/** Renders the harness, the reasoning level, the configuration and changed time limits of a setting. */
export const renderProgram = ({ id, harness, reasoningLevel }: SettingProgram): Html =>
  html`${renderName(nameHarness(harness))} · ${renderName(nameLevel(reasoningLevel))}${listExtras(id).map((extra) => html` · ${renderName(extra)}`)}`

/** Lists the parts of a setting besides model, harness and level: its configuration and changed time limits. */
export function listExtras(id: string): string[] {
  const { configuration, timeLimits } = parseSettingId(id)
  return [configuration, timeLimits].filter((part) => part !== '')
}

/** Describes a setting in plain text: model, harness, level, configuration and changed time limits. */
export function describeSetting({
  id,
  model,
  harness,
  reasoningLevel,
}: SettingProgram & Pick<ReleaseSetting, 'model'>): string {
  const parts = [model.label, nameHarness(harness), nameLevel(reasoningLevel), ...listExtras(id)]
  return parts.map((part) => safeText(part, 60)).join(', ')
}

/** Returns the path of the page of a repository. */
export const repositoryPath = (fullName: string): string => `/results/${toPath(fullName)}`

/** Encodes the segments of a path. */
const toPath = (text: string): string => text.toWellFormed().split('/').map(encodeURIComponent).join('/')

export const releasePath = (fullName: string, releaseId: string): string =>
  `${repositoryPath(fullName)}/releases/${encodeURIComponent(releaseId)}`

export const publisherPath = (login: string): string => `/publishers/${encodeURIComponent(login.toWellFormed())}`

// Pages of a model, a harness and a setting across repositories.

export const modelPath = (catalogId: string): string => `/models/${toPath(catalogId)}`
export const harnessPath = (harness: string): string => `/harnesses/${toPath(harness)}`
export const settingPath = (id: string): string => `/settings/${toPath(id)}`

export const apiPath = (fullName: string): string => `/api/public${repositoryPath(fullName)}`

/** Adds query parameters to a path. Undefined and empty values are left out. */
export function withQuery(path: string, query: Record<string, string | number | undefined>): string {
  const parameters = Object.entries(query).flatMap(([key, value]): [string, string][] =>
    value === undefined || value === '' ? [] : [[key, String(value).toWellFormed()]],
  )
  return parameters.length === 0 ? path : `${path}?${new URLSearchParams(parameters)}`
}

/** Names of languages that are not the id with a capital letter. */
const LANGUAGE_NAMES: Record<string, string> = {
  cpp: 'C++',
  csharp: 'C#',
  fsharp: 'F#',
  javascript: 'JavaScript',
  'objective-c': 'Objective-C',
  ocaml: 'OCaml',
  php: 'PHP',
  sql: 'SQL',
  typescript: 'TypeScript',
}

/** Formats the name of a programming language. */
export const formatLanguage = (language: string): string =>
  LANGUAGE_NAMES[language] ?? `${language.slice(0, 1).toUpperCase()}${language.slice(1)}`
