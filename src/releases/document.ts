import { averageUsd, toUsd } from '../platform/usd.ts'
import { alignScores, isShownWorse } from '../statistics/paired.ts'
import {
  choosePicks,
  computeFrontier,
  countPassed,
  listTasks,
  type SettingPick,
  type SettingResult,
  sumCostMicros,
} from './aggregate.ts'
import type { RunTotals } from './facts.ts'
import { computeContentHash } from './fingerprint.ts'
import type { Disclosure, Release, ReleaseSetting, ResourceSpans } from './shapes/schema.ts'
import { computeSettingStats, toScores } from './stats.ts'

/** Content of a release before it has an id and a time. */
export type ReleaseContent = {
  hash: string
  tasks: string[]
  settings: ReleaseSetting[]
  frontier: string[]
  picks: SettingPick[]
}

/** Builds the content from publishable settings, which must be sorted by id. */
export function buildContent(chosen: readonly SettingResult[]): ReleaseContent {
  const hash = computeContentHash(chosen)
  const tasks = listTasks(chosen)
  const frontier = computeFrontier(chosen)
  const stats = computeSettingStats(chosen, hash)
  const settings = chosen.flatMap((result): ReleaseSetting[] => {
    const settingStats = stats.get(result.id)
    const micros = sumCostMicros(result)
    if (!settingStats || micros === null) return []
    const passed = countPassed(result)
    return [
      {
        ...toSettingNames(result),
        tasks: result.cells.length,
        passed,
        accuracy: (100 * passed) / result.cells.length,
        costPerTaskUsd: averageUsd(micros, result.cells.length),
        totalCostUsd: toUsd(micros),
        onFrontier: frontier.includes(result.id),
        isolation: result.isolation,
        stats: settingStats,
      },
    ]
  })
  return { hash, tasks, settings, frontier, picks: buildPicks(chosen, frontier) }
}

/** Selects the fields that identify a setting in public documents. */
export const toSettingNames = (result: SettingResult) => {
  const { id, model, harness, reasoningLevel, provider, custom, configuration, timeoutMultiplier } = result
  return { id, model, harness, reasoningLevel, provider, custom, configuration, timeoutMultiplier }
}

function buildPicks(chosen: readonly SettingResult[], frontier: readonly string[]): SettingPick[] {
  const byId = new Map(chosen.map((result) => [result.id, result]))
  const candidates = frontier.flatMap((id) => byId.get(id) ?? [])
  const scores = alignScores(candidates.map(toScores))
  const findScores = (id: string) => scores[frontier.indexOf(id)]
  const isWorse = (id: string, than: string): boolean => {
    const own = findScores(id)
    const other = findScores(than)
    return own !== undefined && other !== undefined && isShownWorse(own, other)
  }
  const numbers = candidates.map((each) => ({ id: each.id, tasks: each.cells.length, passed: countPassed(each) }))
  return choosePicks(numbers, isWorse)
}

type ReleaseLabel = { [Name in 'releaseId' | 'releasedAt' | 'repository' | 'publisher']: Release[Name] }

/** Builds the public document of a release. */
export const buildRelease = (
  label: ReleaseLabel,
  { tasks, settings, frontier }: ReleaseContent,
  more: { disclosure: Disclosure; prices: Release['prices'] },
): Release => ({
  schemaVersion: 1,
  ...label,
  tasks: tasks.length,
  settings,
  frontier,
  ...more,
})

/** Builds the disclosure: what was run in a repository, and which part is published. Contains no task names. */
export function buildDisclosure(
  results: readonly SettingResult[],
  chosen: readonly SettingResult[],
  approved: readonly string[],
  run: RunTotals,
): Disclosure {
  const tasks = listTasks(chosen)
  const attempts = chosen.flatMap(({ cells }) => cells.map(({ trials }) => trials))
  const cohorts = chosen.flatMap(({ harness, cohort }) => (cohort ? [{ harness, ...cohort }] : []))
  return {
    settings: { run: results.filter(({ reason }) => reason !== 'reference').length, published: chosen.length },
    trials: {
      run: run.scored + run.errored + run.voided,
      scored: run.scored,
      errored: run.errored,
      voided: run.voided,
    },
    tasks: { approved: approved.length, published: tasks.length, excluded: countExcluded(approved, tasks, run) },
    attempts: attempts.length === 0 ? { min: 0, max: 0 } : { min: minOf(attempts), max: maxOf(attempts) },
    harnesses: listHarnessVersions(cohorts),
    sandboxes: listDistinct(cohorts.map(({ sandbox }) => sandbox)),
    verifyModes: listDistinct(cohorts.map(({ verifyMode }) => verifyMode)),
    isolation: listDistinct(chosen.map(({ isolation }) => isolation)),
    resources: summarizeResources(chosen),
    comparisons: { count: run.comparisons, from: toIsoTime(run.from), to: toIsoTime(run.to) },
  }
}

/** Summarizes the resource limits of the canonical trials as minimum and maximum. */
function summarizeResources(chosen: readonly SettingResult[]): ResourceSpans | null {
  const recorded = chosen.flatMap(({ cells }) => cells.flatMap(({ resources }) => resources ?? []))
  if (recorded.length === 0) return null
  return {
    cpus: toSpan(recorded.map(({ cpus }) => cpus)),
    memoryMb: toSpan(recorded.map(({ memoryMb }) => memoryMb)),
    diskMb: toSpan(recorded.map(({ diskMb }) => diskMb)),
  }
}

/** Returns minimum and maximum. No limit counts as infinite. */
function toSpan(limits: readonly (number | null)[]): ResourceSpans['cpus'] {
  const bounds = limits.map((limit) => limit ?? Number.POSITIVE_INFINITY)
  const toLimit = (bound: number): number | null => (Number.isFinite(bound) ? bound : null)
  return { min: toLimit(minOf(bounds)), max: toLimit(maxOf(bounds)) }
}

function countExcluded(approved: readonly string[], tasks: readonly string[], run: RunTotals) {
  const unpublished = approved.filter((task) => !tasks.includes(task))
  const scoredElsewhere = unpublished.filter((task) => run.scoredTasks.has(task)).length
  const reasons = [
    { reason: 'no_results', count: unpublished.length - scoredElsewhere },
    { reason: 'no_results_under_these_conditions', count: scoredElsewhere },
    { reason: 'declined_after_results', count: run.declined },
  ]
  return reasons.filter(({ count }) => count > 0)
}

const minOf = (numbers: readonly number[]): number => numbers.reduce((a, b) => Math.min(a, b))
const maxOf = (numbers: readonly number[]): number => numbers.reduce((a, b) => Math.max(a, b))

function listHarnessVersions(cohorts: readonly { harness: string; harnessVersion: string }[]) {
  const versions = cohorts.map(({ harness, harnessVersion: version }) => ({ harness, version }))
  const byText = new Map(versions.map((each) => [`${each.harness} ${each.version}`, each]))
  return [...byText].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each)
}

const listDistinct = (values: readonly (string | null)[]): string[] =>
  [...new Set(values.filter((value) => value !== null))].sort()

const toIsoTime = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())
