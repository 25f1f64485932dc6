import type { NamedConfiguration } from '../configurations/schema.ts'
import { averageUsd, toUsd } from '../platform/usd.ts'
import { listFrontier } from '../statistics/frontier.ts'
import { computeWilsonInterval } from '../statistics/intervals.ts'
import { type SettingCounts, SHARE_UNIT, sumCounts } from './counts.ts'
import type {
  Comparison,
  ComparisonPause,
  ComparisonSetting,
  SubmissionError,
  TrialStateCounts,
} from './shapes/schema.ts'

/** The fields of a comparison that are stored in its row. */
export type ComparisonFacts = Pick<
  Comparison,
  'id' | 'scope' | 'state' | 'sandbox' | 'skipCompleted' | 'attempts' | 'concurrency' | 'frozen'
> & {
  submissionError: SubmissionError | null
  pause: ComparisonPause | null
  createdAt: Date
  submittedAt: Date | null
  startedAt: Date | null
  finishedAt: Date | null
  budgetMicros: number | null
  trialBudgetMicros: number | null
}

export type SettingFacts = Pick<
  ComparisonSetting,
  | 'id'
  | 'model'
  | 'harness'
  | 'harnessVersion'
  | 'reasoningLevel'
  | 'provider'
  | 'custom'
  | 'configuration'
  | 'timeoutMultiplier'
  | 'isolation'
>

type CountedSettingFacts = {
  facts: SettingFacts
  counts: SettingCounts
  live: { settledMicros: number; pendingMicros: number }
}

/** Builds the status from one row per setting. Trials are never read, so the duration does not depend on their number. */
export function buildStatus(facts: ComparisonFacts, settings: CountedSettingFacts[], now: Date): Comparison {
  const totals = sumCounts(settings.map(({ counts }) => counts))
  const trials = toStateCounts(totals)
  const { startedAt, pause, submissionError, budgetMicros, trialBudgetMicros, ...publicFacts } = facts
  return {
    ...publicFacts,
    submissionError: submissionError ?? undefined,
    pause: pause ?? undefined,
    createdAt: facts.createdAt.toISOString(),
    submittedAt: facts.submittedAt?.toISOString() ?? null,
    finishedAt: facts.finishedAt?.toISOString() ?? null,
    budgetUsd: toUsdOrNull(budgetMicros),
    trialBudgetUsd: toUsdOrNull(trialBudgetMicros),
    trials,
    costUsd: toUsd(sum(settings.map(toSpentMicros))),
    pendingUsd: toUsd(sum(settings.map(({ live }) => live.pendingMicros))),
    projectedCostUsd: projectCost(totals, trials),
    etaSeconds:
      facts.state === 'running' && startedAt ? estimateSecondsLeft(trials, now.getTime() - startedAt.getTime()) : null,
    frontier: listFrontier(settings.flatMap(({ facts: { id }, counts }) => toFrontierPoints(id, counts))),
    settings: settings.map(toSetting),
  }
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)

/** Returns the new spend of a setting: finished attempts plus the settled calls of running ones. */
const toSpentMicros = ({ counts, live }: CountedSettingFacts): number => counts.spent_micros + live.settledMicros

const toUsdOrNull = (micros: number | null): number | null => (micros === null ? null : toUsd(micros))

const toStateCounts = (counts: SettingCounts): TrialStateCounts => {
  const { queued, running, passed, failed, errored, canceled, reused } = counts
  return {
    total: queued + running + passed + failed + errored + canceled,
    queued,
    running,
    passed,
    failed,
    errored,
    canceled,
    reused,
  }
}

/** Returns the point of a setting, or nothing if it has no result or a cost is unknown. */
const toFrontierPoints = (id: string, counts: SettingCounts) =>
  counts.tasks > 0 && counts.tasks_unpriced === 0
    ? [{ id, tasks: counts.tasks, passed: counts.tasks_passed, micros: counts.tasks_micros }]
    : []

/** Extrapolates from the average time per finished trial. */
function estimateSecondsLeft(
  { queued, running, passed, failed, errored, reused }: TrialStateCounts,
  elapsedMs: number,
): number | null {
  const done = passed + failed + errored - reused
  return done > 0 ? Math.ceil(((queued + running) * elapsedMs) / done / 1000) : null
}

/** Projects the total spend: the expected value ± two standard errors. */
function projectCost(all: SettingCounts, { queued, running }: TrialStateCounts): Comparison['projectedCostUsd'] {
  if (all.metered === 0) return null
  const remaining = queued + running
  const mean = all.spent_micros / all.metered
  const variance = Math.max(0, all.spent_squares / all.metered - mean ** 2)
  const margin = 2 * Math.sqrt(remaining * variance * (1 + remaining / all.metered))
  const expected = all.spent_micros + remaining * mean
  return { low: toUsd(Math.max(all.spent_micros, expected - margin)), high: toUsd(expected + margin) }
}

function toSetting(counted: CountedSettingFacts): ComparisonSetting {
  const { facts, counts, live } = counted
  const { tasks, tasks_passed: passed, tasks_micros } = counts
  const isPriced = tasks > 0 && counts.tasks_unpriced === 0
  return {
    ...facts,
    tasks,
    passed,
    accuracy: tasks === 0 ? null : (100 * passed) / tasks,
    costPerTaskUsd: isPriced ? averageUsd(tasks_micros, tasks) : null,
    totalCostUsd: isPriced ? toUsd(tasks_micros) : null,
    costUsd: toUsd(toSpentMicros(counted)),
    pendingUsd: toUsd(live.pendingMicros),
    stats: computeStats(counts),
    trials: toStateCounts(counts),
  }
}

function computeStats({ tasks, passed, failed, shares, share_squares }: SettingCounts): ComparisonSetting['stats'] {
  if (tasks === 0) return { passAt1: null, ci95: null }
  const mean = shares / SHARE_UNIT / tasks
  const variance = tasks > 1 ? Math.max(0, (share_squares / SHARE_UNIT ** 2 - tasks * mean ** 2) / (tasks - 1)) : 0
  const trials = passed + failed
  const interval = computeWilsonInterval({ tasks, trials, mean, variance })
  const method = { level: 0.95, method: 'wilson-task-clustered', tasks, trials }
  return {
    passAt1: 100 * mean,
    ci95: interval ? { low: 100 * interval.low, high: 100 * interval.high, ...method } : null,
  }
}

/** The columns of a setting that describe its configuration. All are null for a setting without one. */
type ConfigurationColumns = {
  configuration: string | null
  configuration_version: number | null
  configuration_digest: string | null
}

/** Returns the configuration of a setting as the API names it. */
export function toNamedConfiguration(row: ConfigurationColumns): NamedConfiguration | undefined {
  const { configuration: name, configuration_version: version, configuration_digest: digest } = row
  return name === null || version === null || digest === null ? undefined : { name, version, digest }
}
