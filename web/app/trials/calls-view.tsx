import { useInfiniteQuery } from '@tanstack/react-query'
import type { LocatedTrial, TrialCall } from '../../../src/comparisons/shapes/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { formatCount, usd } from '../../components/format.ts'
import { useApi } from '../api/use-api.ts'
import { DataTable } from '../components/data-table.tsx'
import { Empty } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { formatClock } from '../components/times.ts'
import { formatSeconds, isOpenTrial, toTrialTarget } from './trial-files.ts'

const PAGE_SIZE = 100
const REFRESH_MS = 2000

/** Lists the calls to models as the gateway metered them. New calls appear while the trial runs. */
export function CallsView({ trial }: { trial: LocatedTrial }) {
  const api = useApi()
  const { endpoints, params } = toTrialTarget(trial)
  const query = useInfiniteQuery({
    queryKey: ['trial-calls', trial.id],
    queryFn: ({ pageParam: cursor }) => api.call(endpoints.calls, { params, query: { limit: PAGE_SIZE, cursor } }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    refetchInterval: isOpenTrial(trial) ? REFRESH_MS : false,
  })
  if (query.isError) return <ProblemNote error={query.error} onRetry={() => void query.refetch()} />
  const calls = query.data?.pages.flatMap((page) => page.calls)
  if (!calls) return <p className="loading">Loading…</p>
  if (calls.length === 0)
    return (
      <Empty>
        {isOpenTrial(trial) ? 'Calls to models appear here as they happen.' : 'This trial called no model.'}
      </Empty>
    )
  return (
    <>
      <DataTable
        label="Model calls"
        heads={['Time', 'Model', 'Outcome', '#Input', '#Cached', '#Output', '#Duration', '#Cost']}
      >
        {calls.map((call) => (
          <CallRow key={call.id} call={call} />
        ))}
      </DataTable>
      {query.hasNextPage && (
        <button type="button" className="button" onClick={() => void query.fetchNextPage()}>
          Show more calls
        </button>
      )}
    </>
  )
}

function CallRow({ call }: { call: TrialCall }) {
  const { at, model, outcome, status, failure, message, usage, totalMs, costUsd } = call
  const errorStatus = status !== null && status >= 400 ? String(status) : undefined
  const reason = [errorStatus, failure, message].filter(Boolean)
  return (
    <tr>
      <td>{formatClock(at)}</td>
      <td>
        <bdi>{model === null ? '–' : replaceUnsafeCharacters(model)}</bdi>
      </td>
      <td className={outcome === 'succeeded' ? undefined : 'fail-mark'}>
        {outcome}
        {reason.length > 0 && <bdi> {replaceUnsafeCharacters(reason.join(' · '))}</bdi>}
      </td>
      <td className="number">{formatCount(usage.input)}</td>
      <td className="number">{formatCount(usage.cacheRead + usage.cacheWrite)}</td>
      <td className="number">{formatCount(usage.output)}</td>
      <td className="number">{totalMs === null ? '–' : formatSeconds(totalMs / 1000)}</td>
      <td className="number">{costUsd === null ? '–' : usd(costUsd)}</td>
    </tr>
  )
}
