import { EventSourceParserStream } from 'eventsource-parser/stream'
import type { z } from 'zod'
import type { Endpoint, Params, Progress, Reply } from './endpoint.ts'

export type ClientOptions = { url: string; key: string | undefined; fetch?: typeof fetch }

export type CallInput<E extends Endpoint> = {
  params?: Params<E>
  query?: E['query'] extends z.ZodType ? z.input<E['query']> : never
  body?: E['body'] extends z.ZodType ? z.input<E['body']> : never
  upload?: E['upload'] extends object ? Blob : never
  ifMatch?: E['conditional'] extends true ? string : never
}

export type ProblemAnswer = {
  title: string
  status: number
  detail: string
  code: string
  requestId: string
  retryable: boolean
  errors?: { pointer: string; code: string; message: string }[]
}

/** Thrown when the service responded with a problem. */
export class ProblemReceived extends Error {
  readonly problem: ProblemAnswer

  constructor(problem: ProblemAnswer) {
    super(problem.detail)
    this.name = 'ProblemReceived'
    this.problem = problem
  }
}

/** Thrown when nothing responded at the address, or a program other than Assay. */
export class ServiceUnreachable extends Error {}

/** Calls an endpoint. The types come from the same contract that the server validates. */
export async function call<const E extends Endpoint>(
  options: ClientOptions,
  endpoint: E,
  input: CallInput<E> = {},
): Promise<Reply<E>> {
  const response = await send(options, endpoint, input, { accept: 'application/json' })
  const text = await readText(options.url, response)
  if (response.status < 400)
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) } as Reply<E>
  throw toError(options.url, response, text)
}

/** Downloads a file. Throws if the connection breaks before its end. */
export async function download<const E extends Endpoint & { download: true }>(
  options: ClientOptions,
  endpoint: E,
  input: CallInput<E>,
): Promise<{ bytes: Uint8Array; etag: string | undefined }> {
  const response = await openDownload(options, endpoint, input)
  const bytes = new Uint8Array(await response.arrayBuffer())
  return { bytes, etag: response.headers.get('etag') ?? undefined }
}

/** Starts a download. The body of the response is read by the caller. */
export async function openDownload<const E extends Endpoint & { download: true }>(
  options: ClientOptions,
  endpoint: E,
  input: CallInput<E>,
  signal?: AbortSignal,
): Promise<Response> {
  const response = await send(options, endpoint, input, { accept: '*/*', signal })
  if (response.status >= 400) throw toError(options.url, response, await readText(options.url, response))
  return response
}

/** Calls an endpoint that reports progress. Returns the body of its response. */
export async function callWithProgress<const E extends Endpoint & { progress: z.ZodType }>(
  options: ClientOptions,
  endpoint: E,
  input: CallInput<E>,
  onProgress: (progress: Progress<E>) => void,
): Promise<Reply<E>['body']> {
  const response = await send(options, endpoint, input, { accept: 'text/event-stream' })
  if (response.status >= 400 || !response.body)
    throw toError(options.url, response, await readText(options.url, response))
  for await (const { event, data } of readEvents(response.body)) {
    if (event === 'progress') onProgress(JSON.parse(data))
    if (event === 'problem') throw new ProblemReceived(JSON.parse(data))
    if (event === 'result') return JSON.parse(data)
  }
  throw new ServiceUnreachable(`${options.url} closed the connection before the end.`)
}

export type ReceivedEvent = { event: string; data: unknown; id: string | undefined }

/**
 * Yields events until the service ends the stream or `signal` is aborted. Throws ServiceUnreachable when the connection
 * is lost; pass `lastId` to resume.
 */
export async function* streamEvents<const E extends Endpoint & { events: Record<string, z.ZodType> }>(
  options: ClientOptions,
  endpoint: E,
  input: CallInput<E>,
  { signal, lastId }: { signal: AbortSignal; lastId?: string | undefined },
): AsyncGenerator<ReceivedEvent> {
  const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId }
  try {
    const response = await send(options, endpoint, input, { accept: 'text/event-stream', headers, signal })
    if (response.status >= 400 || !response.body)
      throw toError(options.url, response, await readText(options.url, response))
    for await (const { event, data, id } of readEvents(response.body)) yield { event, data: JSON.parse(data), id }
  } catch (error) {
    if (!signal.aborted)
      throw isLostConnection(error) ? new ServiceUnreachable(CONNECTION_LOST, { cause: error }) : error
  }
}

const CONNECTION_LOST = 'The connection to the service was lost.'

/** Fetch reports a connection that ends within a body as a TypeError. */
const isLostConnection = (error: unknown): boolean => error instanceof TypeError

/** Returns the error that a response with this text reports. */
export function toError(url: string, response: Response, text: string): Error {
  if (response.headers.get('content-type')?.startsWith('application/problem+json'))
    return new ProblemReceived(JSON.parse(text))
  return new ServiceUnreachable(
    `${url} responded with ${response.status}, but it does not seem to be Assay. Check the address.`,
  )
}

/** Maximum size of an answer that is kept in memory. A small compressed answer may unpack to gigabytes. */
const ANSWER_BYTES_MAX = 256 * 1024 * 1024
/** Maximum time that reading such an answer takes. A server may send a byte now and then. */
const ANSWER_MS_MAX = 10 * 60_000

const EVENT_LENGTH_MAX = 16 * 1024 * 1024

async function readText(url: string, { body }: Response): Promise<string> {
  if (!body) return ''
  const reader = body.getReader()
  const chunks: Uint8Array<ArrayBuffer>[] = []
  const started = performance.now()
  let bytes = 0
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    chunks.push(read.value)
    bytes += read.value.length
    if (bytes <= ANSWER_BYTES_MAX && performance.now() - started <= ANSWER_MS_MAX) continue
    await reader.cancel()
    throw new ServiceUnreachable(`${url} sent an answer that is too large or too slow. Check the address.`)
  }
  return new Blob(chunks).text()
}

export function buildUrl(base: string, endpoint: Endpoint, input: CallInput<Endpoint>): URL {
  const params: Record<string, string> = input.params ?? {}
  const path = endpoint.path.replaceAll(/\{([^}]+)\}/g, (_, name) => encodeSegment(name, params[name]))
  const url = new URL(path, base)
  for (const [name, value] of Object.entries(input.query ?? {}))
    for (const each of [value].flat()) if (each !== undefined) url.searchParams.append(name, String(each))
  return url
}

/** Encodes a path parameter. URLs drop segments of dots, so that such a name would lead to another operation. */
function encodeSegment(name: string, value = ''): string {
  if (!/^\.{0,2}$/.test(value)) return encodeURIComponent(value)
  throw new Error(`"${value}" is not a valid name (${name}).`)
}

type SendOptions = { accept: string; headers?: Record<string, string>; signal?: AbortSignal | undefined }

async function send(
  options: ClientOptions,
  endpoint: Endpoint,
  input: CallInput<Endpoint>,
  { accept, headers, signal }: SendOptions,
): Promise<Response> {
  const url = buildUrl(options.url, endpoint, input)
  let response: Response
  try {
    response = await (options.fetch ?? fetch)(url, {
      method: endpoint.method,
      headers: {
        accept,
        ...(options.key ? { authorization: `Bearer ${options.key}` } : {}),
        ...buildContentType(endpoint, input),
        ...(input.ifMatch === undefined ? {} : { 'if-match': input.ifMatch }),
        ...headers,
      },
      signal: signal ?? null,
      body: toBody(input),
      redirect: 'manual',
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ServiceUnreachable(`No response from ${options.url}. Is the service running there?`, { cause: error })
  }
  if (!isRedirect(response)) return response
  throw new ServiceUnreachable(`${options.url} redirects to another address. Use the address of the service itself.`)
}

/** Redirects are not followed: the other address would receive the body, which may contain secrets. */
const isRedirect = ({ status, type }: Response): boolean =>
  type === 'opaqueredirect' || [301, 302, 303, 307, 308].includes(status)

function buildContentType({ upload }: Endpoint, { body }: CallInput<Endpoint>): Record<string, string> {
  if (upload) return { 'content-type': upload.mediaType }
  return body === undefined ? {} : { 'content-type': 'application/json' }
}

function toBody({ body, upload }: CallInput<Endpoint>): Blob | string | null {
  if (upload) return upload
  return body === undefined ? null : JSON.stringify(body)
}

type RawEvent = { event: string; data: string; id: string | undefined }

/** Yields server-sent events as they arrive. Comments, which only keep the connection open, are skipped. */
export async function* readEvents(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<RawEvent> {
  const events = body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream({ maxBufferSize: EVENT_LENGTH_MAX }))
  // A reader is used, because not every browser can iterate over a stream.
  const reader = events.getReader()
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const { event = 'message', data, id } = read.value
      yield { event, data, id }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}
