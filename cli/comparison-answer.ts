import type { Quote } from '../src/comparisons/costs/schema.ts'
import type { Comparison } from '../src/comparisons/shapes/schema.ts'
import type { ComparisonDiff, ComparisonPair } from '../src/comparisons/statistics/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { formatJunit, formatMarkdown, type ReportFormat } from './comparison-reports.ts'
import { listTrials, type ScopedComparison } from './comparison-trials.ts'
import type { Service } from './service.ts'
import { print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'
import { printSettings } from './watch-comparison.ts'

export type PairFlags = { baseline?: string }

/** Maximum number of pairs in a table. A longer table would hide the answer below it. */
const PAIRS_SHOWN_MAX = 10

/** Prints the results of a comparison, then its answer and the pairs behind it. JSON also contains the quote, if there is one. */
export async function printResults(
  shell: Shell,
  service: Service,
  scoped: ScopedComparison,
  comparison: Comparison,
  { quote, format = 'table' }: { quote?: Quote | undefined; format?: ReportFormat | undefined } = {},
): Promise<void> {
  if (format === 'markdown') return print(shell, ...formatMarkdown(comparison))
  if (format === 'junit') return print(shell, ...formatJunit(comparison, await listTrials(service, scoped, {})))
  const pairs = await listAnsweredPairs(service, scoped, comparison)
  if (service.json) return printJson(shell, { ...comparison, pairs, quote })
  printSettings(shell, comparison)
  if (pairs && pairs.length > 0) {
    print(shell, '')
    printPairTable(shell, pairs)
  }
  if (comparison.answer) print(shell, '', comparison.answer.text)
}

/**
 * Lists every setting against the recommended one. Without a recommendation it lists all pairs, but undefined if these are
 * too many to print. Also undefined while results are being collected.
 */
export async function listAnsweredPairs(
  service: Service,
  scoped: ScopedComparison,
  { answer, settings }: Comparison,
): Promise<ComparisonPair[] | undefined> {
  if (!answer || answer.state === 'collecting') return undefined
  const baseline = answer.recommended ?? undefined
  const pairCount = (settings.length * (settings.length - 1)) / 2
  const isTooLong = pairCount > PAIRS_SHOWN_MAX && !service.json
  if (baseline === undefined && isTooLong) return undefined
  const pairs = await listPairs(service, scoped, baseline)
  return pairs.filter(({ tasks }) => tasks > 0)
}

async function listPairs(
  service: Service,
  { scope, id }: ScopedComparison,
  baseline: string | undefined,
): Promise<ComparisonPair[]> {
  const params = { org: service.org, ...scope.params, comparisonId: id }
  return (await call(service, scope.endpoints.pairs, { params, query: { baseline } })).body.pairs
}

export async function printPairs(shell: Shell, service: Service, scoped: ScopedComparison, flags: PairFlags) {
  const pairs = await listPairs(service, scoped, flags.baseline)
  if (service.json) return printJson(shell, { pairs })
  printPairTable(shell, pairs)
}

function printPairTable(shell: Shell, pairs: readonly ComparisonPair[]): void {
  printTable<ComparisonPair>(shell, pairs, [
    ['SETTING', ({ a }) => a],
    ['AGAINST', ({ b }) => b],
    ['WON', ({ wonByA }) => String(wonByA)],
    ['LOST', ({ wonByB }) => String(wonByB)],
    ['BOTH', ({ both }) => String(both)],
    ['NEITHER', ({ neither }) => String(neither)],
    ['POINTS', ({ difference }) => (difference ? formatPoints(difference.points) : '-')],
    [
      '95 %',
      ({ difference }) => (difference ? `${formatPoints(difference.low)} to ${formatPoints(difference.high)}` : '-'),
    ],
    ['VERDICT', ({ verdict }) => formatVerdict(verdict)],
  ])
}

/** Prints how the settings of a comparison differ from an earlier one, then the tasks that changed. */
export async function printDiff(shell: Shell, service: Service, { scope, id }: ScopedComparison, baseId: string) {
  const params = { org: service.org, ...scope.params, comparisonId: id, baseId }
  const { body: diff } = await call(service, scope.endpoints.diff, { params })
  if (service.json) return printJson(shell, diff)
  printTable<ComparisonDiff['settings'][number]>(shell, diff.settings, [
    ['SETTING', ({ setting }) => setting],
    ['BEFORE', ({ base, setting }) => (base === setting ? '=' : base)],
    ['HARNESS', ({ baseHarnessVersion: from, harnessVersion: to }) => (from === to ? to : `${from} → ${to}`)],
    ['TASKS', ({ tasks }) => String(tasks)],
    ['FIXED', ({ fixed }) => String(fixed)],
    ['BROKEN', ({ broken }) => String(broken)],
    ['POINTS', ({ difference }) => (difference ? formatPoints(difference.points) : '-')],
    [
      '95 %',
      ({ difference }) => (difference ? `${formatPoints(difference.low)} to ${formatPoints(difference.high)}` : '-'),
    ],
    ['VERDICT', ({ verdict }) => formatVerdict(verdict)],
  ])
  const changedTasks = diff.settings.flatMap(({ setting, changed }) => changed.map((each) => ({ setting, ...each })))
  if (changedTasks.length === 0) return
  print(shell, '')
  printTable<(typeof changedTasks)[number]>(shell, changedTasks, [
    ['TASK', ({ task }) => task.name],
    ['SETTING', ({ setting }) => setting],
    ['CHANGE', ({ change }) => change],
  ])
}

const formatVerdict = (verdict: ComparisonPair['verdict']): string => verdict.replace('_', ' ')

const formatPoints = (points: number): string => `${points > 0 ? '+' : ''}${points.toFixed(1)}`
