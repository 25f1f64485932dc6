import type { Db } from '../db/db.ts'
import type { Caller, CallerOf } from './caller.ts'
import type {
  Body,
  Endpoint,
  Params,
  Progress,
  Query,
  ReadyAnswer,
  Reply,
  ServerEvent,
  Upload,
  UploadOf,
} from './endpoint.ts'

type Call<E extends Endpoint> = {
  params: Params<E>
  query: Query<E>
  body: Body<E>
  upload: UploadOf<E>
  caller: CallerOf<E['access']>
  /** The pool; or, for a request with an Idempotency-Key, the transaction that also remembers its answer. */
  db: Db
  requestId: string
  /** What was asked for, word for word: path and query. */
  target: string
  /** The last event that the client has seen, when it comes back to a stream. */
  lastEventId: string | undefined
  /** What the client has read and means to change. */
  ifMatch: string | undefined
  /** How the client lets an answer be packed. */
  acceptEncoding: string | undefined
  /** Aborts when the client is gone. */
  signal: AbortSignal
  /** Heard only by clients that asked for a stream. */
  onProgress: (progress: Progress<E>) => void
}

type Found<E extends Endpoint> = Pick<Call<E>, 'params' | 'caller' | 'db'>
type Find<E extends Endpoint, F> = (call: Found<E>) => Promise<F>
type Handle<E extends Endpoint, F> = (call: Call<E>, found: F) => Promise<Reply<E>>

/** An endpoint with the code that answers it. The compiler has checked that they fit; the server need not know how. */
export type Route = {
  endpoint: Endpoint
  find?: (call: UncheckedCall) => Promise<unknown>
  handle: (call: UncheckedCall, found: unknown) => Promise<Outcome>
}

type Outcome = {
  status: number
  body: unknown
  headers?: Record<string, string>
  events?: AsyncIterable<ServerEvent>
  bytes?: AsyncIterable<Uint8Array>
  ready?: ReadyAnswer
}

export type UncheckedCall = {
  params: Record<string, string>
  query: unknown
  body: unknown
  upload: Upload | undefined
  caller: Caller | undefined
  db: Db
  requestId: string
  target: string
  lastEventId: string | undefined
  ifMatch: string | undefined
  acceptEncoding: string | undefined
  signal: AbortSignal
  onProgress: (progress: unknown) => void
}

/** `find` looks up what the address names, before the body is judged: a missing thing is 404 whatever the body says. */
export function route<E extends Endpoint>(endpoint: E, handle: Handle<E, undefined>): Route
export function route<E extends Endpoint, F>(endpoint: E, find: Find<E, F>, handle: Handle<E, F>): Route
export function route(endpoint: Endpoint, ...steps: unknown[]): Route {
  const [find, handle] = steps.length === 2 ? steps : [undefined, steps[0]]
  return { endpoint, ...(find ? { find } : {}), handle } as Route
}
