import { averageUsd } from '../platform/usd.ts'
import { type Counts, SHARE, sumOf } from './counts.ts'
import { frontier } from './frontier.ts'
import type { Comparison, Pause, Setting, SubmissionError, TrialCounts } from './shapes/schema.ts'
import { interval } from './statistics.ts'

/** A comparison as its row tells it. */
export type Facts = Pick<
  Comparison,
  'id' | 'scope' | 'state' | 'sandbox' | 'skipCompleted' | 'attempts' | 'concurrency' | 'frozen'
> & {
  submissionError: SubmissionError | null
  pause: Pause | null
  createdAt: Date
  submittedAt: Date | null
  startedAt: Date | null
  finishedAt: Date | null
  budgetMicros: number | null
  trialBudgetMicros: number | null
}

export type SettingFacts = Pick<
  Setting,
  'id' | 'model' | 'harness' | 'harnessVersion' | 'reasoningLevel' | 'provider' | 'custom' | 'isolation'
>

type CountedFacts = { facts: SettingFacts; counts: Counts; live: { settledMicros: number; pendingMicros: number } }

/** How a comparison stands, from one row for each setting: never from its trials. */
export function statusOf(facts: Facts, settings: CountedFacts[], now: Date): Comparison {
  const all = sumOf(settings.map(({ counts }) => counts))
  const trials = trialCounts(all)
  const { startedAt, pause, submissionError, budgetMicros, trialBudgetMicros, ...shown } = facts
  return {
    ...shown,
    ...(submissionError ? { submissionError } : {}),
    ...(pause ? { pause } : {}),
    createdAt: facts.createdAt.toISOString(),
    submittedAt: facts.submittedAt?.toISOString() ?? null,
    finishedAt: facts.finishedAt?.toISOString() ?? null,
    budgetUsd: usd(budgetMicros),
    trialBudgetUsd: usd(trialBudgetMicros),
    trials,
    costUsd: sum(settings.map(spentMicros)) / MILLION,
    pendingUsd: sum(settings.map(({ live }) => live.pendingMicros)) / MILLION,
    projectedCostUsd: projection(all, trials),
    etaSeconds:
      facts.state === 'running' && startedAt ? secondsLeft(trials, now.getTime() - startedAt.getTime()) : null,
    frontier: frontier(settings.flatMap(({ facts: { id }, counts }) => point(id, counts))),
    settings: settings.map(settingOf),
  }
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)

/** New spend of a setting: of attempts that ended, and the settled calls of those that have not. */
const spentMicros = ({ counts, live }: CountedFacts): number => counts.spent_micros + live.settledMicros

const MILLION = 1_000_000
const usd = (micros: number | null): number | null => (micros === null ? null : micros / MILLION)

const trialCounts = (counts: Counts): TrialCounts => {
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

const point = (id: string, counts: Counts) =>
  counts.tasks > 0 && counts.tasks_unpriced === 0
    ? [{ id, tasks: counts.tasks, passed: counts.tasks_passed, micros: counts.tasks_micros }]
    : []

/** As long for each of the rest as for each of those that are done. */
function secondsLeft(
  { queued, running, passed, failed, errored, reused }: TrialCounts,
  elapsedMs: number,
): number | null {
  const done = passed + failed + errored - reused
  return done > 0 ? Math.ceil(((queued + running) * elapsedMs) / done / 1000) : null
}

/** Two standard errors to both sides. */
function projection(all: Counts, { queued, running }: TrialCounts): Comparison['projectedCostUsd'] {
  if (all.metered === 0) return null
  const left = queued + running
  const mean = all.spent_micros / all.metered
  const variance = Math.max(0, all.spent_squares / all.metered - mean ** 2)
  const error = 2 * Math.sqrt(left * variance * (1 + left / all.metered))
  const expected = all.spent_micros + left * mean
  return { low: micros(Math.max(all.spent_micros, expected - error)), high: micros(expected + error) }
}

const micros = (value: number): number => Math.round(value) / MILLION

function settingOf(counted: CountedFacts): Setting {
  const { facts, counts, live } = counted
  const { tasks, tasks_passed: passed, tasks_micros } = counts
  const isPriced = tasks > 0 && counts.tasks_unpriced === 0
  return {
    ...facts,
    tasks,
    passed,
    accuracy: tasks === 0 ? null : (100 * passed) / tasks,
    costPerTaskUsd: isPriced ? averageUsd(tasks_micros, tasks) : null,
    totalCostUsd: isPriced ? tasks_micros / MILLION : null,
    costUsd: spentMicros(counted) / MILLION,
    pendingUsd: live.pendingMicros / MILLION,
    stats: statsOf(counts),
    trials: trialCounts(counts),
  }
}

function statsOf({ tasks, passed, failed, shares, share_squares }: Counts): Setting['stats'] {
  if (tasks === 0) return { passAt1: null, ci95: null }
  const mean = shares / SHARE / tasks
  const variance = tasks > 1 ? Math.max(0, (share_squares / SHARE ** 2 - tasks * mean ** 2) / (tasks - 1)) : 0
  const trials = passed + failed
  const found = interval({ tasks, trials, mean, variance })
  const about = { level: 0.95, method: 'wilson-task-clustered', tasks, trials }
  return { passAt1: 100 * mean, ci95: found ? { low: 100 * found.low, high: 100 * found.high, ...about } : null }
}
