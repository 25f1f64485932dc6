import type { TrialOutcome } from '../comparisons/outcome.ts'

/** The conditions of a trial. Only trials under the same conditions are compared. */
export type Cohort = Pick<TrialOutcome, 'harnessVersion' | 'sandbox' | 'verifyMode'>

/** Results of one setting on one task. */
export type ResultCell = {
  task: string
  /** Result of the canonical trial: the first scored one, never the best. */
  passed: boolean
  costMicros: number | null
  costSource: string | null
  usage: TrialOutcome['usage']
  resources: TrialOutcome['resources']
  agentSeconds: number | null
  /** Key of the canonical trial, see `formatTrialKey`. */
  trial: string
  /** Number of scored trials of the task. */
  trials: number
  passes: number
}

export type CohortResult = {
  cohort: Cohort
  cells: ResultCell[]
  isolation: string | null
  errored: number
}

/** Selects the cohort of a setting that covers most approved tasks; among ties the newest. */
export function selectCohort(trials: readonly TrialOutcome[], approved: ReadonlySet<string>): CohortResult | undefined {
  const counted = dedupeTrials(trials).filter(({ task }) => approved.has(task))
  const cohorts = Map.groupBy(counted.filter(isScored), toCohortKey)
  const [best] = [...cohorts.values()].sort(compareCohorts)
  const [first] = best ?? []
  if (!best || !first) return undefined
  const cohort = { harnessVersion: first.harnessVersion, sandbox: first.sandbox, verifyMode: first.verifyMode }
  return {
    cohort,
    cells: toCells(best),
    isolation: sameOrMixed(best.map(({ isolation }) => isolation)),
    errored: counted.filter((trial) => trial.state === 'errored' && isSameSetup(trial, cohort)).length,
  }
}

/** Removes duplicates of reused trials, and trials of which any use was voided. */
export function dedupeTrials(trials: readonly TrialOutcome[]): TrialOutcome[] {
  const voided = new Set(trials.filter(({ isVoided }) => isVoided).map(({ trial }) => trial))
  const firstUses = new Map<string, TrialOutcome>()
  for (const use of trials) {
    if (voided.has(use.trial)) continue
    const earlier = firstUses.get(use.trial)
    if (!earlier || compareRequestTime(use, earlier) < 0) firstUses.set(use.trial, use)
  }
  return [...firstUses.values()]
}

const isScored = ({ state }: TrialOutcome): boolean => state !== 'errored'

/** Compares without the verify mode, because an errored trial may not have reached its verifier. */
const isSameSetup = (trial: TrialOutcome, cohort: Cohort): boolean =>
  trial.harnessVersion === cohort.harnessVersion && trial.sandbox === cohort.sandbox

const toCohortKey = ({ harnessVersion, sandbox, verifyMode }: Cohort): string =>
  JSON.stringify([harnessVersion, sandbox, verifyMode])

const compareCohorts = (a: TrialOutcome[], b: TrialOutcome[]): number =>
  countTasks(b) - countTasks(a) || newestTimeOf(b) - newestTimeOf(a) || (toSharedKey(a) < toSharedKey(b) ? -1 : 1)

const countTasks = (trials: TrialOutcome[]): number => new Set(trials.map(({ task }) => task)).size
const newestTimeOf = (trials: TrialOutcome[]): number =>
  trials.reduce((last, { comparedAt }) => Math.max(last, comparedAt), 0)
const toSharedKey = ([first]: TrialOutcome[]): string => (first ? toCohortKey(first) : '')

/** Orders trials by when they were requested. The time at which they finished is arbitrary. */
const compareRequestTime = (a: TrialOutcome, b: TrialOutcome): number =>
  a.comparedAt - b.comparedAt || a.attempt - b.attempt || a.comparison - b.comparison || (a.trial < b.trial ? -1 : 1)

function toCells(trials: TrialOutcome[]): ResultCell[] {
  const cells = [...Map.groupBy(trials.sort(compareRequestTime), ({ task }) => task)].flatMap(
    ([task, [first, ...others]]) => (first ? [toCell(task, [first, ...others])] : []),
  )
  return cells.sort((a, b) => (a.task < b.task ? -1 : 1))
}

function toCell(task: string, [first, ...others]: [TrialOutcome, ...TrialOutcome[]]): ResultCell {
  const { costMicros, costSource, usage, resources, agentSeconds, trial } = first
  return {
    task,
    passed: first.state === 'passed',
    costMicros,
    costSource,
    usage,
    resources,
    agentSeconds,
    trial,
    trials: 1 + others.length,
    passes: [first, ...others].filter(({ state }) => state === 'passed').length,
  }
}

/** Returns the only distinct value, `mixed` if there are several, or null if there is none. */
export function sameOrMixed(values: readonly (string | null)[]): string | null {
  const distinct = new Set(values.filter((value) => value !== null))
  const [only] = distinct
  return distinct.size > 1 ? 'mixed' : (only ?? null)
}
