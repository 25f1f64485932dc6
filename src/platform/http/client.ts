import type { z } from 'zod'
import type { Endpoint, Params, Reply } from './endpoint.ts'

export type ClientOptions = { url: string; key: string | undefined; fetch?: typeof fetch }

type Wish<E extends Endpoint> = {
  params?: Params<E>
  query?: E['query'] extends z.ZodType ? z.input<E['query']> : never
  body?: E['body'] extends z.ZodType ? z.input<E['body']> : never
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
class ServiceUnreachable extends Error {}

/** Calls an endpoint by its value: the same contract that the server checks gives the types here. */
export async function call<const E extends Endpoint>(
  options: ClientOptions,
  endpoint: E,
  wish: Wish<E> = {},
): Promise<Reply<E>> {
  const response = await send(options, endpoint, wish)
  const text = await response.text()
  if (response.status < 400)
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) } as Reply<E>
  if (!response.headers.get('content-type')?.startsWith('application/problem+json')) {
    throw new ServiceUnreachable(`${options.url} answered ${response.status}, and not as Assay does.`)
  }
  throw new ProblemReceived(JSON.parse(text))
}

async function send(options: ClientOptions, endpoint: Endpoint, wish: Wish<Endpoint>): Promise<Response> {
  const params: Record<string, string> = wish.params ?? {}
  const path = endpoint.path.replaceAll(/\{([^}]+)\}/g, (_, name) => encodeURIComponent(params[name] ?? ''))
  const url = new URL(path, options.url)
  for (const [name, value] of Object.entries(wish.query ?? {}))
    if (value !== undefined) url.searchParams.set(name, String(value))
  try {
    return await (options.fetch ?? fetch)(url, {
      method: endpoint.method,
      headers: {
        accept: 'application/json',
        ...(options.key ? { authorization: `Bearer ${options.key}` } : {}),
        ...(wish.body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(wish.body === undefined ? {} : { body: JSON.stringify(wish.body) }),
    })
  } catch (error) {
    throw new ServiceUnreachable(`No answer from ${options.url}. Is the service running there?`, { cause: error })
  }
}
