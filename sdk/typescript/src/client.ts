import { readServerSentEvents, type ServerSentEvent } from './events.ts'
import { type BatchRun, type Comparison, type Operations, operations, type Problem } from './operations.gen.ts'
import { delay, type RetryOptions, requestWithRetries } from './retries.ts'

export type AssayOptions = RetryOptions & {
  /** URL of the service, for example `http://127.0.0.1:4000`. */
  url: string
  /** API key: `assay_…`. Not needed for public results. */
  key?: string | undefined
}

const RECONNECT_MS = 1000

type OperationId = keyof Operations
type Kind = 'json' | 'none' | 'events' | 'file'
/** Ids of the operations whose response is of this kind. */
type IdOf<K extends Kind> = { [Id in OperationId]: (typeof operations)[Id]['kind'] extends K ? Id : never }[OperationId]

/** The input may be left out if every part of it is optional. */
type InputOf<Id extends OperationId> =
  Record<never, never> extends Operations[Id]['input']
    ? [input?: Operations[Id]['input']]
    : [input: Operations[Id]['input']]

type AnyInput = {
  params?: Record<string, string>
  query?: Record<string, unknown>
  body?: unknown
  upload?: Blob
  ifMatch?: string
}

/** The service responded with a problem. `problem.code` is stable. */
export class AssayProblem extends Error {
  override name = 'AssayProblem'
  readonly problem: Problem

  constructor(problem: Problem) {
    super(toPrintable(`${problem.detail} (${problem.code})`))
    this.problem = problem
  }
}

/** Nothing answered, or something that is not Assay. */
export class AssayUnreachable extends Error {
  override name = 'AssayUnreachable'
}

type StreamOptions = { signal?: AbortSignal | undefined; lastEventId?: string | undefined }
type WaitOptions<Status> = { signal?: AbortSignal | undefined; onStatus?: ((status: Status) => void) | undefined }

/** The scope of a comparison: a benchmark, or approved tasks of a repository. */
type ComparisonRef = { org: string; comparisonId: string } & (
  | { datasetOrg: string; dataset: string }
  | { owner: string; name: string }
)
type BatchRef = { org: string; owner: string; name: string; runId: string }

/** A client of one service. Requests that can be repeated safely are retried. */
export class Assay {
  readonly #options: AssayOptions

  constructor(options: AssayOptions) {
    this.#options = options
  }

  /** Calls an operation and returns the body of its response. Throws `AssayProblem` if the service refuses. */
  async call<Id extends IdOf<'json' | 'none'>>(id: Id, ...[input]: InputOf<Id>): Promise<Operations[Id]['response']> {
    const { url } = this.#options
    const text = await readText(url, await this.#send(id, input))
    return text === '' ? undefined : parseJson(url, text)
  }

  /** Downloads a file. */
  async download<Id extends IdOf<'file'>>(id: Id, ...[input]: InputOf<Id>): Promise<Uint8Array> {
    return new Uint8Array(await (await this.#send(id, input)).arrayBuffer())
  }

  /** Yields the pages of a list, from the first to the last. */
  async *pages<Id extends IdOf<'json'>>(id: Id, ...[input]: InputOf<Id>): AsyncGenerator<Operations[Id]['response']> {
    let cursor: string | null | undefined
    do {
      const { query, ...rest } = (input ?? {}) as AnyInput
      const page = await this.call(id, ...([{ ...rest, query: { ...query, cursor: cursor ?? undefined } }] as never))
      yield page
      const { nextCursor } = page as { nextCursor?: string | null }
      if (nextCursor && nextCursor === cursor) throw new AssayUnreachable(`${this.#options.url} repeats a page.`)
      cursor = nextCursor
    } while (cursor)
  }

  /** Yields the events of a stream until the service ends it. Reconnects after a lost connection and resumes. */
  async *events<Id extends IdOf<'events'>>(
    id: Id,
    input: Operations[Id]['input'],
    { signal, lastEventId }: StreamOptions = {},
  ): AsyncGenerator<ServerSentEvent> {
    let lastId = lastEventId
    while (!signal?.aborted) {
      const headers = { accept: 'text/event-stream', ...(lastId === undefined ? {} : { 'last-event-id': lastId }) }
      const response = await this.#send(id, input, { headers, signal })
      for await (const event of readServerSentEvents(response, signal)) {
        lastId = event.id ?? lastId
        yield event
        if (event.event === 'end') return
      }
      await delay(RECONNECT_MS, signal).catch(() => {}) // aborted: the loop ends
    }
  }

  /** Waits until a comparison has ended or paused, and returns it with its answer. */
  async waitForComparison(ref: ComparisonRef, options: WaitOptions<Comparison> = {}): Promise<Comparison> {
    const isBenchmark = 'dataset' in ref
    const params = ref as never
    const events = isBenchmark
      ? this.events('watchComparisonOnBenchmark', { params }, options)
      : this.events('watchComparisonOnRepository', { params }, options)
    for await (const { event, data } of events) {
      if (event !== 'status') continue
      const status = data as Comparison
      options.onStatus?.(status)
      if (status.state === 'paused') break
    }
    options.signal?.throwIfAborted()
    return isBenchmark
      ? this.call('readComparisonOnBenchmark', { params })
      : this.call('readComparisonOnRepository', { params })
  }

  /** Waits until a batch has ended, and returns it. */
  async waitForBatch(params: BatchRef, options: WaitOptions<BatchRun> = {}): Promise<BatchRun> {
    for await (const { event, data } of this.events('followBatch', { params }, options))
      if (event === 'status') options.onStatus?.(data as BatchRun)
    options.signal?.throwIfAborted()
    return this.call('readBatch', { params })
  }

  async #send(
    id: OperationId,
    input: AnyInput = {},
    { headers = {}, signal }: { headers?: Record<string, string>; signal?: AbortSignal | undefined } = {},
  ): Promise<Response> {
    const operation: AnyOperation = operations[id]
    const { url, key } = this.#options
    const request = {
      method: operation.method,
      headers: { ...buildHeaders(operation, input, key), ...headers },
      body: input.upload ?? (input.body === undefined ? null : JSON.stringify(input.body)),
      signal: signal ?? null,
      redirect: 'manual' as const,
    }
    const isRepeatable = operation.method === 'GET' || operation.method === 'PUT' || operation.creates === true
    const response = await requestWithRetries(
      buildUrl(url, operation.path, input),
      request,
      isRepeatable,
      this.#options,
    )
    if (!response) throw new AssayUnreachable(`No response from ${url}. Is the service running there?`)
    if (isRedirect(response))
      throw new AssayUnreachable(`${url} redirects to another address. Use the address of the service itself.`)
    if (response.status < 400) return response
    throw await toError(url, response)
  }
}

/** Redirects are not followed: the other address would receive the body, which may contain secrets. */
const isRedirect = ({ status, type }: Response): boolean =>
  type === 'opaqueredirect' || [301, 302, 303, 307, 308].includes(status)

/** Replaces characters that control a terminal or reorder a line. Problems quote names that others have chosen. */
const toPrintable = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, '\ufffd')

/** Maximum size of an answer that is kept in memory. A small compressed answer may unpack to gigabytes. */
const ANSWER_BYTES_MAX = 256 * 1024 * 1024
/** Maximum time that reading such an answer takes. A server may send a byte now and then. */
const ANSWER_MS_MAX = 10 * 60_000

async function readText(url: string, { body }: Response): Promise<string> {
  if (!body) return ''
  const reader = body.getReader()
  const chunks: Uint8Array<ArrayBuffer>[] = []
  const started = performance.now()
  let bytes = 0
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    chunks.push(read.value as Uint8Array<ArrayBuffer>)
    bytes += read.value.length
    if (bytes <= ANSWER_BYTES_MAX && performance.now() - started <= ANSWER_MS_MAX) continue
    await reader.cancel()
    throw new AssayUnreachable(`${url} sent an answer that is too large or too slow. Check the address.`)
  }
  return new Blob(chunks).text()
}

function parseJson(url: string, text: string) {
  try {
    return JSON.parse(text)
  } catch {
    throw new AssayUnreachable(`${url} does not seem to be Assay: its answer is not JSON. Check the address.`)
  }
}

type AnyOperation = { method: string; path: string; upload?: string; creates?: boolean }

const buildHeaders = (
  { upload, creates }: AnyOperation,
  { body, ifMatch }: AnyInput,
  key: string | undefined,
): Record<string, string> => ({
  accept: 'application/json, */*',
  ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
  ...(upload === undefined ? {} : { 'content-type': upload }),
  ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
  ...(creates ? { 'idempotency-key': crypto.randomUUID() } : {}),
})

function buildUrl(base: string, path: string, { params = {}, query = {} }: AnyInput): URL {
  const url = new URL(
    path.replaceAll(/\{([^}]+)\}/g, (_, name: string) => encodeSegment(name, params[name])),
    base,
  )
  for (const [name, value] of Object.entries(query))
    for (const each of [value].flat()) if (each !== undefined) url.searchParams.append(name, String(each))
  return url
}

/** Encodes a path parameter. URLs drop segments of dots, so that such a name would lead to another operation. */
function encodeSegment(name: string, value = ''): string {
  if (!/^\.{0,2}$/.test(value)) return encodeURIComponent(value)
  throw new TypeError(`"${value}" is not a valid name (${name}).`)
}

async function toError(url: string, response: Response): Promise<Error> {
  const isProblem = response.headers.get('content-type')?.startsWith('application/problem+json')
  if (isProblem) return new AssayProblem(parseJson(url, await readText(url, response)) as Problem)
  return new AssayUnreachable(
    `${url} responded with ${response.status}, but it does not seem to be Assay. Check the address.`,
  )
}
