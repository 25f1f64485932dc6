import { type Result, tasksOf } from './aggregate.ts'
import type { Run } from './facts.ts'
import type { Disclosure, Resources } from './shapes/schema.ts'

/** What was run in a repository, and what of it these settings show. Counts only: tasks have no names here. */
export function disclosureOf(
  results: readonly Result[],
  chosen: readonly Result[],
  approved: readonly string[],
  run: Run,
): Disclosure {
  const tasks = tasksOf(chosen)
  const attempts = chosen.flatMap(({ cells }) => cells.map(({ trials }) => trials))
  const cohorts = chosen.flatMap(({ harness, cohort }) => (cohort ? [{ harness, ...cohort }] : []))
  return {
    settings: { run: results.filter(({ reason }) => reason !== 'reference').length, published: chosen.length },
    trials: { run: run.scored + run.errored + run.voided, ...trialsOf(run) },
    tasks: { approved: approved.length, published: tasks.length, excluded: excludedOf(approved, tasks, run) },
    attempts: { min: attempts.length === 0 ? 0 : least(attempts), max: attempts.reduce((a, b) => Math.max(a, b), 0) },
    harnesses: harnessesOf(cohorts),
    sandboxes: distinct(cohorts.map(({ sandbox }) => sandbox)),
    verifyModes: distinct(cohorts.map(({ verifyMode }) => verifyMode)),
    isolation: distinct(chosen.map(({ isolation }) => isolation)),
    resources: resourcesOf(chosen),
    comparisons: { count: run.comparisons, from: timeOf(run.from), to: timeOf(run.to) },
  }
}

/** Of the trials that count, the least and the most that a sandbox might use. */
function resourcesOf(chosen: readonly Result[]): Resources | null {
  const known = chosen.flatMap(({ cells }) => cells.flatMap(({ resources }) => resources ?? []))
  if (known.length === 0) return null
  return {
    cpus: spanOf(known.map(({ cpus }) => cpus)),
    memoryMb: spanOf(known.map(({ memoryMb }) => memoryMb)),
    diskMb: spanOf(known.map(({ diskMb }) => diskMb)),
  }
}

/** Without a limit is more than any. */
function spanOf(limits: readonly (number | null)[]): Resources['cpus'] {
  const [min, max] = [least(limits.map(orEndless)), limits.map(orEndless).reduce((a, b) => Math.max(a, b))]
  return { min: Number.isFinite(min) ? min : null, max: Number.isFinite(max) ? max : null }
}

const orEndless = (limit: number | null): number => limit ?? Number.POSITIVE_INFINITY

const trialsOf = ({ scored, errored, voided }: Run) => ({ scored, errored, voided })

function excludedOf(approved: readonly string[], tasks: readonly string[], run: Run) {
  const left = approved.filter((task) => !tasks.includes(task))
  const elsewhere = left.filter((task) => run.scoredTasks.has(task)).length
  const reasons = [
    { reason: 'no_results', count: left.length - elsewhere },
    { reason: 'no_results_under_these_conditions', count: elsewhere },
    { reason: 'declined_after_results', count: run.declined },
  ]
  return reasons.filter(({ count }) => count > 0)
}

const least = (numbers: readonly number[]): number => numbers.reduce((a, b) => Math.min(a, b))

function harnessesOf(cohorts: readonly { harness: string; harnessVersion: string }[]) {
  const all = cohorts.map(({ harness, harnessVersion: version }) => ({ harness, version }))
  const byText = new Map(all.map((each) => [`${each.harness} ${each.version}`, each]))
  return [...byText].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each)
}

const distinct = (words: readonly (string | null)[]): string[] =>
  [...new Set(words.filter((word) => word !== null))].sort()

const timeOf = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())
