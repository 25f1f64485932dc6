import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ProblemNote } from './problem-note.tsx'

type LoadedProps<T> = { query: UseQueryResult<T>; children: (data: T) => ReactNode }

/** Shows the result of a read: a note while it loads, then the data, or the problem with a button to retry. */
export function Loaded<T>({ query, children }: LoadedProps<T>) {
  if (query.data !== undefined)
    return (
      <>
        {query.isRefetchError && <ProblemNote error={query.error} onRetry={() => void query.refetch()} />}
        {children(query.data)}
      </>
    )
  if (query.isError) return <ProblemNote error={query.error} onRetry={() => void query.refetch()} />
  return (
    <p className="loading" aria-busy="true">
      Loading…
    </p>
  )
}
