import { printable } from '../platform/terminal-text.ts'
import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'

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

/** Escapes a value. Control and invisible characters are replaced by spaces. Text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe. */
function toCsvCell(value: string | number | boolean | null): string {
  if (value === null) return ''
  if (typeof value !== 'string') return String(value)
  const text = printable(value.toWellFormed(), ' ')
  const safe = /^[\s'"]*[=+\-@|%＝＋－＠]/u.test(text) ? `'${text}` : text
  return /[",\r\n']|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
