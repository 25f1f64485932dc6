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
  /** Reads again at this interval. */
  refetchMs?: number | undefined
  /** If false, nothing is read. */
  enabled?: boolean | undefined
  /** Shows the previous result while the result for a new input loads. */
  keepPrevious?: boolean
  /**
   * If false, the component neither reads again nor renders new results, for example while it is out of view. A read
   * that sets this option stays in the cache, so that it can be resumed.
   */
  subscribed?: boolean
  /** Returns the part of the result that is shown. The component is not rendered again if that part is the same. */
  select?: (data: T) => T
}

/** Returns the key of a read in the query cache. Without input, the key matches every read of the endpoint. */
export const toQueryKey = (endpoint: Endpoint, input?: object): unknown[] =>
  input === undefined ? [endpoint.id] : [endpoint.id, input]

/** Reads an endpoint through the cache. Show the result with `<Loaded>`. */
export function useRead<const E extends Endpoint>(
  endpoint: E,
  input: ApiInput<E> = {},
  options: ReadOptions<ApiBody<E>> = {},
): UseQueryResult<ApiBody<E>> {
  const api = useApi()
  const staysInCache = options.subscribed !== undefined
  return useQuery({
    queryKey: toQueryKey(endpoint, input),
    queryFn: () => api.call(endpoint, input),
    refetchInterval: options.refetchMs ?? false,
    enabled: options.enabled ?? true,
    subscribed: options.subscribed ?? true,
    ...(staysInCache ? { gcTime: Number.POSITIVE_INFINITY } : {}),
    ...(options.select ? { select: options.select as (data: unknown) => unknown } : {}),
    ...(options.keepPrevious ? { placeholderData: keepPreviousData } : {}),
  }) as UseQueryResult<ApiBody<E>>
}

type ChangeOptions<E extends Endpoint> = {
  /** Endpoints whose cached reads are out of date after the change. */
  invalidates?: readonly Endpoint[]
  onDone?: (body: ApiBody<E>) => void
}

/** Calls an endpoint that changes something. Show `error` of the result with `<ProblemNote>` beside the control. */
export function useChange<const E extends Endpoint>(endpoint: E, { invalidates = [], onDone }: ChangeOptions<E> = {}) {
  const api = useApi()
  const queries = useQueryClient()
  return useMutation<ApiBody<E>, Error, ApiInput<E>>({
    mutationFn: (input) => api.call(endpoint, input),
    onSuccess: async (body) => {
      await Promise.all(invalidates.map((each) => queries.invalidateQueries({ queryKey: toQueryKey(each) })))
      onDone?.(body)
    },
  })
}
