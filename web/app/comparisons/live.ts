import { type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import type {
  Comparison,
  ComparisonMatrix,
  ComparisonSetting,
  TrialChange,
} from '../../../src/comparisons/shapes/schema.ts'
import { toQueryKey, useRead } from '../api/use-api.ts'
import { useEvents } from '../api/use-events.ts'
import { applyChanges } from './map-model.ts'
import type { ComparisonTarget } from './scope.ts'

/** Interval at which statistics are read again while trials run, because status events do not contain them. */
const STATISTICS_REFRESH_MS = 10_000

const OPEN_STATES: readonly Comparison['state'][] = ['submitting', 'running', 'paused']

/** Returns true if the comparison has not ended: trials are running or can still run. */
export const isOpen = ({ state }: Comparison): boolean => OPEN_STATES.includes(state)

export const hasUnscoredTrials = ({ trials }: Comparison): boolean => trials.errored > 0 || trials.canceled > 0

/**
 * Reads a comparison, and follows its events while it is open. Events update the comparison and the matrix in the cache.
 * The returned comparison does not change when only counts and results change, so that the end of a trial does not render
 * the whole page again.
 */
export function useLiveComparison({ endpoints, input }: ComparisonTarget) {
  const queries = useQueryClient()
  const [select] = useState(createOutlineSelector)
  const cached = queries.getQueryData<Comparison>(toQueryKey(endpoints.read, input))
  const comparison = useRead(endpoints.read, input, {
    refetchMs: cached?.state === 'running' ? STATISTICS_REFRESH_MS : undefined,
    select,
  })
  const cache: ComparisonCache = {
    queries,
    status: toQueryKey(endpoints.read, input),
    matrix: toQueryKey(endpoints.matrix, input),
    activity: toActivityKey(input.params.comparisonId),
  }
  const changes = useQueue<TrialChange>(runInFrame, (values) => storeChanges(cache, values))
  const statuses = useQueue<Comparison>(runAfterDelay, (values) => storeLastStatus(cache, values))
  const readAgain = () => {
    // Queued events are older than the answers of these reads and must not be stored after them.
    changes.flush()
    statuses.flush()
    for (const endpoint of [endpoints.read, endpoints.matrix, endpoints.pairs, endpoints.failures])
      void queries.invalidateQueries({ queryKey: toQueryKey(endpoint) })
  }
  const stream = useEvents(endpoints.events, input, {
    enabled: comparison.data !== undefined && isOpen(comparison.data),
    onRestored: readAgain,
    onEvent: (event, data) => {
      if (event === 'trial') changes.push(data as TrialChange)
      if (event === 'status') statuses.push(data as Comparison)
      if (event === 'end') readAgain()
    },
  })
  return { comparison, stream }
}

/** Returns a function that returns the same comparison until something other than its counts and results has changed. */
function createOutlineSelector(): (comparison: Comparison) => Comparison {
  let last: Comparison | undefined
  return (comparison) => {
    if (!last || !hasSameOutline(last, comparison)) last = comparison
    return last
  }
}

const hasSameOutline = (a: Comparison, b: Comparison): boolean =>
  a.id === b.id &&
  a.state === b.state &&
  a.answer === b.answer &&
  a.pause === b.pause &&
  a.submissionError === b.submissionError &&
  a.budgetUsd === b.budgetUsd &&
  a.settings.length === b.settings.length &&
  hasUnscoredTrials(a) === hasUnscoredTrials(b)

/** The query cache, and the keys under which it holds a comparison, its matrix and its last changes. */
type ComparisonCache = { queries: QueryClient; status: unknown[]; matrix: unknown[]; activity: unknown[] }

/** Returns the key of a comparison's last changes in the query cache. */
export const toActivityKey = (comparisonId: string): unknown[] => ['activity', comparisonId]

/** Number of changes that the activity shows. */
const ACTIVITY_MAX = 6

/** Stores the last of several statuses. Keeps previous answer and statistics, which only the event at the end contains. */
function storeLastStatus({ queries, status, matrix }: ComparisonCache, statuses: readonly Comparison[]): void {
  const next = statuses.at(-1)
  if (!next) return
  const previous = queries.getQueryData<Comparison>(status)
  queries.setQueryData<Comparison>(status, {
    ...next,
    answer: next.answer ?? previous?.answer,
    settings: mergeSettings(previous?.settings ?? [], next.settings),
  })
  // The matrix is empty until the submission has frozen the tasks.
  const hasTasks = (queries.getQueryData<ComparisonMatrix>(matrix)?.tasks.length ?? 0) > 0
  if (!hasTasks && next.frozen) void queries.invalidateQueries({ queryKey: matrix })
}

/** Merges the settings of a new status into the previous ones. Unchanged settings stay the same objects. */
function mergeSettings(previous: readonly ComparisonSetting[], next: readonly ComparisonSetting[]) {
  const byId = new Map(previous.map((setting) => [setting.id, setting]))
  return next.map((setting) => {
    const before = byId.get(setting.id)
    if (!before) return setting
    return hasSameCounts(before, setting) ? before : { ...setting, stats: { ...before.stats, ...setting.stats } }
  })
}

/**
 * Returns true if a setting has not changed. All other fields change only together with one of the compared fields, which
 * are compared one by one because this function runs once per setting for every trial.
 */
const hasSameCounts = (a: ComparisonSetting, b: ComparisonSetting): boolean =>
  a.trials.passed === b.trials.passed &&
  a.trials.failed === b.trials.failed &&
  a.trials.errored === b.trials.errored &&
  a.trials.running === b.trials.running &&
  a.trials.queued === b.trials.queued &&
  a.trials.canceled === b.trials.canceled &&
  a.tasks === b.tasks &&
  a.passed === b.passed &&
  a.accuracy === b.accuracy &&
  a.costUsd === b.costUsd &&
  a.totalCostUsd === b.totalCostUsd &&
  a.pendingUsd === b.pendingUsd &&
  a.isolation === b.isolation

function storeChanges({ queries, matrix, activity }: ComparisonCache, changes: readonly TrialChange[]): void {
  queries.setQueryData<ComparisonMatrix>(matrix, (previous) => previous && applyChanges(previous, changes))
  queries.setQueryData<readonly TrialChange[]>(activity, (previous = []) => toActivity(previous, changes))
}

/** Returns the last changes, the newest first and each once: a restored stream may repeat some. */
function toActivity(previous: readonly TrialChange[], changes: readonly TrialChange[]): TrialChange[] {
  const changesByKey = new Map<string, TrialChange>()
  for (const change of [...changes.toReversed(), ...previous]) {
    const key = `${change.id} ${change.state}`
    if (!changesByKey.has(key)) changesByKey.set(key, change)
  }
  return [...changesByKey.values()].slice(0, ACTIVITY_MAX)
}

/** Schedules work and returns a function that cancels it. */
type Schedule = (work: () => void) => () => void

const runInFrame: Schedule = (work) => {
  const frame = requestAnimationFrame(work)
  return () => cancelAnimationFrame(frame)
}

/** Delay after which statuses are applied together. Longer than a frame, so that the map shows a trial first. */
const STATUS_DELAY_MS = 150

const runAfterDelay: Schedule = (work) => {
  const timer = setTimeout(work, STATUS_DELAY_MS)
  return () => clearTimeout(timer)
}

/** Collects values and applies them together at the scheduled time, because many trials can end at once. */
function useQueue<T>(schedule: Schedule, apply: (values: readonly T[]) => void) {
  const queue = useRef<T[]>([])
  const cancel = useRef<() => void>(undefined)
  useEffect(
    () => () => {
      cancel.current?.()
      queue.current = []
    },
    [],
  )
  const flush = () => {
    cancel.current?.()
    const values = queue.current
    queue.current = []
    if (values.length > 0) apply(values)
  }
  const push = (value: T) => {
    queue.current.push(value)
    if (queue.current.length === 1) cancel.current = schedule(flush)
  }
  return { push, flush }
}
