import type { z } from 'zod'
import type { Endpoint, Params, Progress, Reply } from './endpoint.ts'
import { readEvents } from './read-events.ts'

export type ClientOptions = { url: string; key: string | undefined; fetch?: typeof fetch }

type Wish<E extends Endpoint> = {
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

/** The service said no, and why. */
export class ProblemReceived extends Error {
  readonly problem: ProblemAnswer

  constructor(problem: ProblemAnswer) {
    super(problem.detail)
    this.name = 'ProblemReceived'
    this.problem = problem
  }
}

/** Nobody answered at the address, or someone who is not Assay. */
export class ServiceUnreachable extends Error {}

/** Calls an endpoint by its value: the same contract that the server checks gives the types here. */
export async function call<const E extends Endpoint>(
  options: ClientOptions,
  endpoint: E,
  wish: Wish<E> = {},
): Promise<Reply<E>> {
  const response = await send(options, endpoint, wish, { accept: 'application/json' })
  const text = await response.text()
  if (response.status < 400)
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) } as Reply<E>
  throw problemIn(options, response, text)
}

/** The bytes of a file. They are whole: one that breaks off throws. */
export async function download<const E extends Endpoint & { download: true }>(
  options: ClientOptions,
  endpoint: E,
  wish: Wish<E>,
): Promise<{ bytes: Uint8Array; etag: string | undefined }> {
  const response = await send(options, endpoint, wish, { accept: '*/*' })
  if (response.status >= 400) throw problemIn(options, response, await response.text())
  const bytes = new Uint8Array(await response.arrayBuffer())
  return { bytes, etag: response.headers.get('etag') ?? undefined }
}

/** Calls an endpoint that tells how far it is. Gives the body of its answer. */
export async function follow<const E extends Endpoint & { progress: z.ZodType }>(
  options: ClientOptions,
  endpoint: E,
  wish: Wish<E>,
  onProgress: (progress: Progress<E>) => void,
): Promise<Reply<E>['body']> {
  const response = await send(options, endpoint, wish, { accept: 'text/event-stream' })
  if (response.status >= 400 || !response.body) throw problemIn(options, response, await response.text())
  for await (const { event, data } of readEvents(response.body)) {
    if (event === 'progress') onProgress(JSON.parse(data))
    if (event === 'problem') throw new ProblemReceived(JSON.parse(data))
    if (event === 'result') return JSON.parse(data)
  }
  throw new ServiceUnreachable(`${options.url} broke off before the end.`)
}

export type Heard = { event: string; data: unknown; id: string | undefined }

/** Events as they come, until the service ends the stream. A line that breaks is taken up after the last id. */
export async function* listenTo<const E extends Endpoint & { events: Record<string, z.ZodType> }>(
  options: ClientOptions,
  endpoint: E,
  wish: Wish<E>,
  { signal, lastId }: { signal: AbortSignal; lastId?: string | undefined },
): AsyncGenerator<Heard> {
  const headers = { ...(lastId === undefined ? {} : { 'last-event-id': lastId }) }
  const response = await send(options, endpoint, wish, { accept: 'text/event-stream', headers, signal })
  if (response.status >= 400 || !response.body) throw problemIn(options, response, await response.text())
  for await (const { event, data, id } of readEvents(response.body)) yield { event, data: JSON.parse(data), id }
}

function problemIn(options: ClientOptions, response: Response, text: string): Error {
  if (response.headers.get('content-type')?.startsWith('application/problem+json'))
    return new ProblemReceived(JSON.parse(text))
  return new ServiceUnreachable(`${options.url} answered ${response.status}, and not as Assay does.`)
}

function addressOf(base: string, endpoint: Endpoint, wish: Wish<Endpoint>): URL {
  const params: Record<string, string> = wish.params ?? {}
  const path = endpoint.path.replaceAll(/\{([^}]+)\}/g, (_, name) => encodeURIComponent(params[name] ?? ''))
  const url = new URL(path, base)
  for (const [name, value] of Object.entries(wish.query ?? {}))
    for (const each of [value].flat()) if (each !== undefined) url.searchParams.append(name, String(each))
  return url
}

type Sending = { accept: string; headers?: Record<string, string>; signal?: AbortSignal }

async function send(
  options: ClientOptions,
  endpoint: Endpoint,
  wish: Wish<Endpoint>,
  { accept, headers, signal }: Sending,
): Promise<Response> {
  try {
    return await (options.fetch ?? fetch)(addressOf(options.url, endpoint, wish), {
      method: endpoint.method,
      headers: {
        accept,
        ...(options.key ? { authorization: `Bearer ${options.key}` } : {}),
        ...contentType(endpoint, wish),
        ...(wish.ifMatch === undefined ? {} : { 'if-match': wish.ifMatch }),
        ...headers,
      },
      ...(signal ? { signal } : {}),
      ...bodyOf(wish),
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ServiceUnreachable(`No answer from ${options.url}. Is the service running there?`, { cause: error })
  }
}

function contentType({ upload }: Endpoint, { body }: Wish<Endpoint>): Record<string, string> {
  if (upload) return { 'content-type': upload.mediaType }
  return body === undefined ? {} : { 'content-type': 'application/json' }
}

function bodyOf({ body, upload }: Wish<Endpoint>): { body?: Blob | string } {
  if (upload) return { body: upload }
  return body === undefined ? {} : { body: JSON.stringify(body) }
}
