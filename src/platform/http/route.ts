import type { Db } from '../db/db.ts'
import type { Caller, CallerOf } from './caller.ts'
import type {
  Body,
  CachedResponse,
  Endpoint,
  Params,
  Progress,
  Query,
  Reply,
  ServerEvent,
  Upload,
  UploadOf,
} from './endpoint.ts'

/** Parts of a call that do not depend on its endpoint. */
type RequestContext = {
  /** The pool, or for a request with an Idempotency-Key the transaction that also stores its response. */
  db: Db
  requestId: string
  /** Path and query exactly as received. */
  target: string
  /** Last event that a reconnecting client has received. */
  lastEventId: string | undefined
  /** ETag of the version that the client means to change. */
  ifMatch: string | undefined
  acceptEncoding: string | undefined
  /** Aborts when the client disconnects. */
  signal: AbortSignal
}

type RouteCall<E extends Endpoint> = RequestContext & {
  params: Params<E>
  query: Query<E>
  body: Body<E>
  upload: UploadOf<E>
  caller: CallerOf<E['access']>
  /** Reports progress to clients that requested a stream; a no-op for others. */
  onProgress: (progress: Progress<E>) => void
}

type LookupCall<E extends Endpoint> = Pick<RouteCall<E>, 'params' | 'caller' | 'db' | 'upload'>
type RouteLookup<E extends Endpoint, F> = (call: LookupCall<E>) => Promise<F>
type RouteHandler<E extends Endpoint, F> = (call: RouteCall<E>, found: F) => Promise<Reply<E>>

/** An endpoint and its handler, with types erased. `route` has checked that they fit. */
export type Route = {
  endpoint: Endpoint
  find?: ((call: UncheckedCall) => Promise<unknown>) | undefined
  handle: (call: UncheckedCall, found: unknown) => Promise<UncheckedReply>
}

type UncheckedReply = {
  status: number
  body: unknown
  headers?: Record<string, string>
  events?: AsyncIterable<ServerEvent>
  bytes?: AsyncIterable<Uint8Array>
  cached?: CachedResponse
}

export type UncheckedCall = RequestContext & {
  params: Record<string, string>
  query: unknown
  body: unknown
  upload: Upload | undefined
  caller: Caller | undefined
  onProgress: (progress: unknown) => void
}

/**
 * Declares a route. `find` runs before the body is validated, so that a missing resource is 404 whatever the body is, and
 * outside of the transaction of an Idempotency-Key, so that slow checks of an upload hold no database connection.
 */
export function route<E extends Endpoint>(endpoint: E, handle: RouteHandler<E, undefined>): Route
export function route<E extends Endpoint, F>(endpoint: E, find: RouteLookup<E, F>, handle: RouteHandler<E, F>): Route
export function route(endpoint: Endpoint, ...steps: unknown[]): Route {
  const [find, handle] = steps.length === 2 ? steps : [undefined, steps[0]]
  return { endpoint, find, handle } as Route
}
