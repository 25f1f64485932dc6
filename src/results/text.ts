import { printable } from '../platform/terminal-text.ts'
import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** Escapes text for XML content and attributes. */
export const escapeXml = (text: string): string =>
  stripControls(text).replaceAll(/[&<>"']/g, (sign) => ENTITIES[sign] ?? '')

/** Replaces control and invisible characters, and those that XML forbids. Names are untrusted. */
const stripControls = (text: string): string =>
  printable(text.toWellFormed(), ' ')
    .replaceAll(/[\ufffe\uffff]/g, ' ')
    .trim()

/** Marks models that a workspace has added, because their names may look like those of a provider's models. */
export const markCustom = (name: string, { custom }: { custom: boolean }): string =>
  custom ? `${name} (custom model)` : name

let segmenter: Intl.Segmenter | undefined

/**
 * Splits text into graphemes. The segmenter is created on first use, because that takes a browser several
 * milliseconds.
 */
function splitGraphemes(text: string): string[] {
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' })
  return Array.from(segmenter.segment(text), ({ segment }) => segment)
}

/** A grapheme can have any number of combining marks. The rest is cut off. */
const GRAPHEME_LENGTH_MAX = 16
/** Characters per wanted grapheme that are split, which bounds the time for untrusted text. */
const SPLIT_PER_GRAPHEME = 50

/** Truncates text to `max` graphemes. */
export function truncate(text: string, max: number): string {
  const graphemes = splitGraphemes(stripControls(text).slice(0, SPLIT_PER_GRAPHEME * max))
  const truncated = graphemes.length > max ? [...graphemes.slice(0, max - 1), '…'] : graphemes
  return truncated.map((grapheme) => grapheme.slice(0, GRAPHEME_LENGTH_MAX)).join('')
}

/** Estimates the width in characters. East Asian wide characters count as two. */
export const widthOf = (text: string): number =>
  splitGraphemes(text).reduce((sum, grapheme) => sum + (WIDE.test(grapheme) ? 2 : 1), 0)

const WIDE =
  /[\u{1100}-\u{115f}\u{2e80}-\u{a4cf}\u{ac00}-\u{d7a3}\u{f900}-\u{faff}\u{fe30}-\u{fe6f}\u{ff00}-\u{ff60}\u{ffe0}-\u{ffe6}\u{1f300}-\u{1faff}]/u

export const formatPercent = (percent: number): string => `${Math.round(percent * 10) / 10} %`

/** Formats an amount with two significant digits or more. */
export function formatUsd(usd: number): string {
  if (usd === 0) return '$0'
  if (usd >= 100) return `$${Math.round(usd)}`
  if (usd >= 1) return `$${usd.toFixed(2)}`
  const decimals = Math.min(6, 1 - Math.floor(Math.log10(usd)))
  return `$${Number(usd.toPrecision(2)).toFixed(decimals)}`
}

type CsvColumn = [name: string, value: (setting: ReleaseSetting, release: Release) => string | number | boolean | null]

const COLUMNS: CsvColumn[] = [
  ['repository', (_, release) => release.repository.fullName],
  ['publisher', (_, release) => release.publisher.login],
  ['release_id', (_, release) => release.releaseId],
  ['released_at', (_, release) => release.releasedAt],
  ['setting', ({ id }) => id],
  ['model', ({ model }) => model.label],
  ['harness', ({ harness }) => harness],
  ['reasoning_level', ({ reasoningLevel }) => reasoningLevel],
  ['provider', ({ provider }) => provider],
  ['custom', ({ custom }) => custom],
  ['tasks', ({ tasks }) => tasks],
  ['passed', ({ passed }) => passed],
  ['accuracy', ({ accuracy }) => accuracy],
  ['ci95_low', ({ stats }) => stats.ci95?.low ?? null],
  ['ci95_high', ({ stats }) => stats.ci95?.high ?? null],
  ['rank_best', ({ stats }) => stats.rank.best],
  ['rank_worst', ({ stats }) => stats.rank.worst],
  ['cost_per_task_usd', ({ costPerTaskUsd }) => costPerTaskUsd],
  ['total_cost_usd', ({ totalCostUsd }) => totalCostUsd],
  ['on_frontier', ({ onFrontier }) => onFrontier],
  ['median_seconds', ({ stats }) => stats.medianSeconds ?? null],
]

/** Renders one line per setting (RFC 4180). */
export const toCsv = (release: Release): string =>
  [
    COLUMNS.map(([name]) => name),
    ...release.settings.map((setting) => COLUMNS.map(([, value]) => toCsvCell(value(setting, release)))),
  ]
    .map((cells) => `${cells.join(',')}\r\n`)
    .join('')

/**
 * Escapes a value. Control and invisible characters are replaced by spaces. Text that a spreadsheet would evaluate as a
 * formula is prefixed with an apostrophe.
 */
function toCsvCell(value: string | number | boolean | null): string {
  if (value === null) return ''
  if (typeof value !== 'string') return String(value)
  const text = printable(value.toWellFormed(), ' ')
  const safe = /^[\s'"]*[=+\-@|%＝＋－＠]/u.test(text) ? `'${text}` : text
  return /[",\r\n']|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
