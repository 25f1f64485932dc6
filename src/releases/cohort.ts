import type { Outcome } from '../comparisons/outcome.ts'

/** Trials that were made under the same conditions. Only these are held against each other. */
export type Cohort = Pick<Outcome, 'harnessVersion' | 'sandbox' | 'verifyMode'>

/** What one setting did on one task. */
export type Cell = {
  task: string
  /** The trial that stands for the task: the first, never the best. */
  passed: boolean
  costMicros: number | null
  costSource: string | null
  usage: Outcome['usage']
  resources: Outcome['resources']
  /** Which trial it is. */
  trial: string
  /** All scored trials of it. */
  trials: number
  passes: number
}

export type Chosen = {
  cohort: Cohort
  cells: Cell[]
  isolation: string | null
  errored: number
}

/** The results of one setting: of the cohort that covers most of the approved tasks, and of ties the newest. */
export function chosenCohort(trials: readonly Outcome[], approved: ReadonlySet<string>): Chosen | undefined {
  const counted = once(trials).filter(({ task }) => approved.has(task))
  const cohorts = Map.groupBy(counted.filter(isScored), keyOf)
  const [best] = [...cohorts.values()].sort(byWorth)
  const [first] = best ?? []
  if (!best || !first) return undefined
  const cohort = { harnessVersion: first.harnessVersion, sandbox: first.sandbox, verifyMode: first.verifyMode }
  return {
    cohort,
    cells: cellsOf(best),
    isolation: sameOrMixed(best.map(({ isolation }) => isolation)),
    errored: counted.filter((trial) => trial.state === 'errored' && isAlike(trial, cohort)).length,
  }
}

/** One trial counts once, however often it was used again, and not at all when any use of it was voided. */
export function once(trials: readonly Outcome[]): Outcome[] {
  const voided = new Set(trials.filter(({ isVoided }) => isVoided).map(({ trial }) => trial))
  const first = new Map<string, Outcome>()
  for (const trial of trials) {
    const before = first.get(trial.trial)
    if (!voided.has(trial.trial) && (!before || byAge(trial, before) < 0)) first.set(trial.trial, trial)
  }
  return [...first.values()]
}

const isScored = ({ state }: Outcome): boolean => state !== 'errored'

/** A trial that broke may not have come to its verifier. */
const isAlike = (trial: Outcome, cohort: Cohort): boolean =>
  trial.harnessVersion === cohort.harnessVersion && trial.sandbox === cohort.sandbox

const keyOf = ({ harnessVersion, sandbox, verifyMode }: Cohort): string =>
  JSON.stringify([harnessVersion, sandbox, verifyMode])

const byWorth = (a: Outcome[], b: Outcome[]): number =>
  tasksIn(b) - tasksIn(a) || newest(b) - newest(a) || (keyOfAll(a) < keyOfAll(b) ? -1 : 1)

const tasksIn = (trials: Outcome[]): number => new Set(trials.map(({ task }) => task)).size
const newest = (trials: Outcome[]): number => trials.reduce((last, { comparedAt }) => Math.max(last, comparedAt), 0)
const keyOfAll = ([first]: Outcome[]): string => (first ? keyOf(first) : '')

/** By when they were asked for: when they ended depends on luck. */
const byAge = (a: Outcome, b: Outcome): number =>
  a.comparedAt - b.comparedAt || a.attempt - b.attempt || a.comparison - b.comparison || (a.trial < b.trial ? -1 : 1)

function cellsOf(trials: Outcome[]): Cell[] {
  const cells = [...Map.groupBy(trials.sort(byAge), ({ task }) => task)].flatMap(([task, [first, ...others]]) =>
    first ? [cellOf(task, [first, ...others])] : [],
  )
  return cells.sort((a, b) => (a.task < b.task ? -1 : 1))
}

function cellOf(task: string, [first, ...others]: [Outcome, ...Outcome[]]): Cell {
  const { costMicros, costSource, usage, resources, trial } = first
  return {
    task,
    passed: first.state === 'passed',
    ...{ costMicros, costSource, usage, resources, trial },
    trials: 1 + others.length,
    passes: [first, ...others].filter(({ state }) => state === 'passed').length,
  }
}

/** Of many words the one that all say; else `mixed`. */
export function sameOrMixed(words: readonly (string | null)[]): string | null {
  const distinct = new Set(words.filter((word) => word !== null))
  const [only] = distinct
  return distinct.size > 1 ? 'mixed' : (only ?? null)
}
