import { keepPreviousData, type UseQueryResult, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { createContext, useContext } from 'react'
import type { Endpoint } from '../../../src/platform/http/endpoint.ts'
import type { Api, ApiBody, ApiInput } from './api.ts'

export const ApiContext = createContext<Api | undefined>(undefined)

export function useApi(): Api {
  const api = useContext(ApiContext)
  if (!api) throw new Error('useApi needs a signed-in session around it.')
  return api
}

type ReadOptions<T> = {
  refetchMs?: number | undefined
  enabled?: boolean | undefined
  keepPrevious?: boolean
  /** False holds the result: it is neither read again nor rendered. If set, the result stays in the cache. */
  subscribed?: boolean
  /** Returns what is shown of the result. The component is not rendered again if it returns the same. */
  select?: (data: T) => T
}

/** Key of a read in the query cache. Without input it matches every read of the endpoint. */
export const readKey = (endpoint: Endpoint, input?: object): unknown[] =>
  input === undefined ? [endpoint.id] : [endpoint.id, input]

/** Reads an endpoint through the cache. Show the result with `<Loaded>`. */
export function useRead<const E extends Endpoint>(
  endpoint: E,
  input: ApiInput<E> = {},
  options: ReadOptions<ApiBody<E>> = {},
): UseQueryResult<ApiBody<E>> {
  const api = useApi()
  return useQuery({
    queryKey: readKey(endpoint, input),
    queryFn: () => api.call(endpoint, input),
    refetchInterval: options.refetchMs ?? false,
    enabled: options.enabled ?? true,
    subscribed: options.subscribed ?? true,
    ...(options.subscribed === undefined ? {} : { gcTime: Number.POSITIVE_INFINITY }),
    ...(options.select ? { select: options.select as (data: unknown) => unknown } : {}),
    ...(options.keepPrevious ? { placeholderData: keepPreviousData } : {}),
  }) as UseQueryResult<ApiBody<E>>
}

type ChangeOptions<E extends Endpoint> = {
  /** Endpoints whose cached reads are out of date after the change. */
  outdates?: readonly Endpoint[]
  onDone?: (body: ApiBody<E>) => void
}

/** Calls an endpoint that changes something. Show `error` of the result with `<ProblemNote>` beside the control. */
export function useChange<const E extends Endpoint>(endpoint: E, { outdates = [], onDone }: ChangeOptions<E> = {}) {
  const api = useApi()
  const queries = useQueryClient()
  return useMutation<ApiBody<E>, Error, ApiInput<E>>({
    mutationFn: (input) => api.call(endpoint, input),
    onSuccess: async (body) => {
      await Promise.all(outdates.map((each) => queries.invalidateQueries({ queryKey: readKey(each) })))
      onDone?.(body)
    },
  })
}
