import {
  buildUrl,
  type CallInput,
  type ClientOptions,
  call,
  callWithProgress,
  openDownload,
  ProblemReceived,
  ServiceUnreachable,
  streamEvents,
} from '../../../src/platform/http/client.ts'
import type { Endpoint, Params, Progress, Reply } from '../../../src/platform/http/endpoint.ts'
import type { Session } from '../../../src/workspaces/schema.ts'

/** Input of a call without the workspace, which the client adds to the path. */
export type ApiInput<E extends Endpoint> = Omit<CallInput<E>, 'params'> & { params?: Omit<Params<E>, 'org'> }
export type ApiBody<E extends Endpoint> = Reply<E>['body']
export type FileEndpoint = Endpoint & { download: true }
type ProgressEndpoint = Endpoint & { progress: NonNullable<Endpoint['progress']> }
export type EventEndpoint = Endpoint & { events: NonNullable<Endpoint['events']> }

export type Api = ReturnType<typeof createApi>

/** Creates the client of a signed-in browser. The cookie is sent by the browser, the CSRF token with every change. */
export function createApi({ org, csrfToken }: Session) {
  const options: ClientOptions = { ...ANONYMOUS, fetch: createFetch(csrfToken) }
  const addWorkspace = <E extends Endpoint>(input: ApiInput<E>) =>
    ({ ...input, params: { org, ...input.params } }) as unknown as CallInput<E>
  return {
    org,
    async call<const E extends Endpoint>(endpoint: E, input: ApiInput<E> = {}): Promise<ApiBody<E>> {
      const { body } = await call(options, endpoint, addWorkspace(input))
      return body
    },
    /** Calls an endpoint that reports progress while it works. */
    callWithProgress<const E extends ProgressEndpoint>(
      endpoint: E,
      input: ApiInput<E>,
      onProgress: (progress: Progress<E>) => void,
    ): Promise<ApiBody<E>> {
      return callWithProgress(options, endpoint, addWorkspace(input), onProgress)
    },
    /** Starts the download of a file. The body of the response streams its content. */
    openFile<const E extends FileEndpoint>(endpoint: E, input: ApiInput<E>, signal?: AbortSignal): Promise<Response> {
      return openDownload(options, endpoint, addWorkspace(input), signal)
    },
    /** Returns the address of a file or a page, for a link or a frame. The service sends files as attachments. */
    urlOf<const E extends Endpoint>(endpoint: E, input: ApiInput<E>): string {
      return buildUrl(options.url, endpoint, addWorkspace(input) as CallInput<Endpoint>).href
    },
    /** Opens an event stream. With `lastId`, it continues after the event with that id. */
    stream<const E extends EventEndpoint>(
      endpoint: E,
      input: ApiInput<E>,
      streamOptions: { signal: AbortSignal; lastId: string | undefined },
    ) {
      return streamEvents(options, endpoint, addWorkspace(input), streamOptions)
    },
  }
}

/** The client of a browser that has not signed in. */
export const ANONYMOUS: ClientOptions = { url: globalThis.location.origin, key: undefined }

const createFetch =
  (csrfToken: string | null): typeof fetch =>
  (target, init) => {
    const headers = new Headers(init?.headers)
    if (csrfToken !== null && init?.method !== 'GET') headers.set('x-csrf-token', csrfToken)
    return fetch(target, { ...init, headers })
  }

/** Returns true if the session has ended, so that the user must sign in again. */
export const isSignedOut = (error: unknown): boolean => error instanceof ProblemReceived && error.problem.status === 401

/** Returns true if the same request may succeed later. */
export const isRetryable = (error: unknown): boolean =>
  error instanceof ServiceUnreachable || (error instanceof ProblemReceived && error.problem.retryable)

/** Returns true if the request was valid but the service has no result for it (status 422). */
export const isUnprocessable = (error: unknown): boolean =>
  error instanceof ProblemReceived && error.problem.status === 422
