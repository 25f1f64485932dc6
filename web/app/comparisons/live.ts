import { type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import type { Comparison, ComparisonMatrix, TrialChange } from '../../../src/comparisons/shapes/schema.ts'
import { readKey, useRead } from '../api/use-api.ts'
import { useEvents } from '../api/use-events.ts'
import { applyChanges } from './map-model.ts'
import type { ComparisonTarget } from './scope.ts'

/** Statistics are not part of status events. They are read again this often while trials end. */
const STATISTICS_MS = 10_000

const OPEN: readonly Comparison['state'][] = ['submitting', 'running', 'paused']

export const isOpen = ({ state }: Comparison): boolean => OPEN.includes(state)

/** Reads a comparison, and follows its events while it is open. They also update its matrix in the cache. */
export function useLiveComparison({ endpoints, input }: ComparisonTarget) {
  const queries = useQueryClient()
  const cached = queries.getQueryData<Comparison>(readKey(endpoints.read, input))
  const comparison = useRead(endpoints.read, input, {
    refetchMs: cached?.state === 'running' ? STATISTICS_MS : undefined,
  })
  const cache: ComparisonCache = {
    queries,
    status: readKey(endpoints.read, input),
    matrix: readKey(endpoints.matrix, input),
  }
  const readAgain = () => {
    for (const endpoint of [endpoints.read, endpoints.matrix, endpoints.pairs, endpoints.failures])
      void queries.invalidateQueries({ queryKey: readKey(endpoint) })
  }
  const queueChange = useChangeQueue((changes) => storeChanges(cache, changes))
  const stream = useEvents(endpoints.events, input, {
    enabled: comparison.data !== undefined && isOpen(comparison.data),
    onRestored: readAgain,
    onEvent: (event, data) => {
      if (event === 'trial') queueChange(data as TrialChange)
      if (event === 'status') storeStatus(cache, data as Comparison)
      if (event === 'end') readAgain()
    },
  })
  return { comparison, stream }
}

type ComparisonCache = { queries: QueryClient; status: unknown[]; matrix: unknown[] }

/** Stores a status. Keeps answer and statistics, which events contain only at the end. */
function storeStatus({ queries, status, matrix }: ComparisonCache, next: Comparison): void {
  const previous = queries.getQueryData<Comparison>(status)
  const stats = new Map(previous?.settings.map((setting) => [setting.id, setting.stats]))
  queries.setQueryData<Comparison>(status, {
    ...next,
    answer: next.answer ?? previous?.answer,
    settings: next.settings.map((setting) => ({ ...setting, stats: { ...stats.get(setting.id), ...setting.stats } })),
  })
  // The plan exists only after the submission.
  const isPlanned = (queries.getQueryData<ComparisonMatrix>(matrix)?.tasks.length ?? 0) > 0
  if (!isPlanned && next.frozen) void queries.invalidateQueries({ queryKey: matrix })
}

const storeChanges = ({ queries, matrix }: ComparisonCache, changes: readonly TrialChange[]): void =>
  void queries.setQueryData<ComparisonMatrix>(matrix, (previous) => previous && applyChanges(previous, changes))

/** Collects changes and applies them once per frame, because many trials can end at the same time. */
function useChangeQueue(apply: (changes: readonly TrialChange[]) => void): (change: TrialChange) => void {
  const queue = useRef<TrialChange[]>([])
  const frame = useRef(0)
  useEffect(() => () => cancelAnimationFrame(frame.current), [])
  return (change) => {
    queue.current.push(change)
    if (queue.current.length > 1) return
    frame.current = requestAnimationFrame(() => {
      const changes = queue.current
      queue.current = []
      apply(changes)
    })
  }
}
