import { type ClientRequest, type IncomingMessage, request as plainRequest } from 'node:http'
import { request as secureRequest } from 'node:https'
import { type Duplex, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { createFragmentCounter, TooManyFragments } from '../../platform/outbound/fragments.ts'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import { SandboxUnavailable, SandboxUnreachable } from '../sandbox.ts'
import { type DockerConnection, describeFix, routeTo } from './connection.ts'

type DockerMethod = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE'
type DockerQuery = Record<string, string | number | boolean | undefined>
type DockerRequest = {
  query?: DockerQuery
  body?: unknown
  signal?: AbortSignal
  headers?: Record<string, string>
  /** Timeout of the whole answer, or of the start of a stream. Null: only the signal ends the request. */
  timeoutMs?: number | null
}

/** Timeout of ordinary requests. An engine under heavy load takes seconds. */
const ANSWER_TIMEOUT_MS = 60_000
/** Timeout of requests that transfer or copy all files of a sandbox. */
export const TRANSFER_TIMEOUT_MS = 15 * 60_000

/** Thrown when the engine answers with an error status. */
export class EngineRefusal extends Error {
  override name = 'EngineRefusal'
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export type Docker = {
  /** Sends a request and returns the JSON of the response. The type is not checked. */
  call<T>(method: DockerMethod, path: string, options?: DockerRequest): Promise<T>
  /** Sends a request and returns the response body as a stream, with its headers. */
  open(method: DockerMethod, path: string, options?: DockerRequest): Promise<IncomingMessage>
  /** Opens the input and output of a container, or of a command in it, as a duplex stream. */
  attach(path: string, options?: DockerRequest): Promise<Duplex>
  /** Sets the API version of all later requests. */
  useVersion(version: string): void
  close(): void
}

/** Creates a client of the Docker API. Connections are kept alive. */
export function connectDocker(connection: DockerConnection): Docker {
  const { secure, ...route } = routeTo(connection)
  const request = secure ? secureRequest : plainRequest
  let prefix = ''

  const sendRequest = (
    method: DockerMethod,
    path: string,
    { query = {}, body, signal, headers = {} }: DockerRequest,
  ) => {
    const bytes = body === undefined || body instanceof Readable ? undefined : JSON.stringify(body)
    const allHeaders = bytes === undefined ? headers : { ...headers, ...toJsonHeaders(bytes) }
    const fullPath = `${prefix}${path}${formatQuery(query)}`
    const sent = limitInformational(request({ ...route, method, path: fullPath, headers: allHeaders, signal }))
    if (body instanceof Readable)
      void pipeline(body, sent).catch(() => {}) // reported by the request
    else sent.end(bytes)
    return sent
  }

  const open: Docker['open'] = async (method, path, options = {}) => {
    const answer = Promise.withResolvers<IncomingMessage>()
    // The request, and then its response: a timeout ends the one that is open.
    let current: { destroy(error: Error): unknown } = sendRequest(method, path, options)
      .once('response', (message) => {
        current = message.once('close', () => clearTimeout(timeout))
        answer.resolve(message)
      })
      .on('error', (error) => answer.reject(toUnreachableError(connection, error, options.signal)))
    const timeout = startTimeout(options, () => current.destroy(createTimeoutError(method, path)))
    answer.promise.catch(() => clearTimeout(timeout))
    return requireSuccess(await answer.promise)
  }

  return {
    open,
    async call<T>(method: DockerMethod, path: string, options?: DockerRequest) {
      const body = await readAnswer(await open(method, path, options))
      if (body === '') return undefined as T
      const parsed = parseUntrustedJson(body)
      if (parsed !== undefined) return parsed as T
      throw new SandboxUnavailable(`The Docker engine sent an invalid answer to ${method} ${path}.`)
    },
    async attach(path, options = {}) {
      const joined = Promise.withResolvers<Duplex>()
      const headers = { connection: 'Upgrade', upgrade: 'tcp' }
      const sent = sendRequest('POST', path, { ...options, headers })
        .once('upgrade', (_answer, socket, head) => {
          if (head.length > 0) socket.unshift(head)
          joined.resolve(socket)
        })
        .once('response', (answer) =>
          requireSuccess(answer).then(() => joined.reject(createNoStreamError()), joined.reject),
        )
        .on('error', (error) => joined.reject(toUnreachableError(connection, error, options.signal)))
      const timeout = startTimeout(options, () => sent.destroy(createTimeoutError('POST', path)))
      return joined.promise.finally(() => clearTimeout(timeout))
    },
    useVersion(version) {
      prefix = `/v${version}`
    },
    close: () => route.agent.destroy(),
  }
}

function limitInformational(sent: ClientRequest): ClientRequest {
  const counter = createFragmentCounter()
  return sent.on('information', () => {
    if (!counter.countInformational()) sent.destroy(new TooManyFragments())
  })
}

const toJsonHeaders = (bytes: string) => ({
  'content-type': 'application/json',
  'content-length': Buffer.byteLength(bytes),
})

const formatQuery = (query: DockerQuery): string => {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value))
  return parameters.size === 0 ? '' : `?${parameters}`
}

const startTimeout = (
  { timeoutMs = ANSWER_TIMEOUT_MS }: DockerRequest,
  onTimeout: () => void,
): NodeJS.Timeout | undefined => (timeoutMs === null ? undefined : setTimeout(onTimeout, timeoutMs).unref())

const createNoStreamError = (): SandboxUnavailable => new SandboxUnavailable('The Docker engine opened no stream.')

const createTimeoutError = (method: DockerMethod, path: string): SandboxUnavailable =>
  new SandboxUnavailable(`The Docker engine did not finish ${method} ${path} in time.`)

/** Maximum size of an answer. The engine may belong to a workspace, and must not fill the memory of the worker. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024

async function readAnswer(answer: IncomingMessage): Promise<string> {
  const counter = createFragmentCounter()
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer) {
    bytes += chunk.length
    if (bytes > ANSWER_BYTES_MAX) throw new SandboxUnavailable('The Docker engine sent an answer that is too large.')
    if (!counter.countChunk(chunk)) throw new SandboxUnavailable('The Docker engine sent an answer in too many parts.')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Throws EngineRefusal if the engine answered with an error status. */
async function requireSuccess(answer: IncomingMessage): Promise<IncomingMessage> {
  const status = answer.statusCode ?? 0
  if (status < 400) return answer
  throw new EngineRefusal(
    status,
    parseErrorMessage(await readAnswer(answer)) || `The Docker engine answered ${status}.`,
  )
}

const MESSAGE_LENGTH_MAX = 10_000
const ErrorAnswer = z.object({ message: z.string().transform((text) => text.slice(0, MESSAGE_LENGTH_MAX)) })

function parseErrorMessage(body: string): string {
  const parsed = ErrorAnswer.safeParse(parseUntrustedJson(body))
  return parsed.success ? parsed.data.message : body.slice(0, MESSAGE_LENGTH_MAX)
}

function toUnreachableError(connection: DockerConnection, error: Error, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason
  if (error instanceof SandboxUnavailable) return error
  return new SandboxUnreachable(`The Docker engine does not answer: ${error.message}. ${describeFix(connection)}`, {
    cause: error,
  })
}

/** Returns an error handler that ignores these statuses, for objects that may already be removed. */
export function ignoring(...statuses: number[]): (error: unknown) => undefined {
  return (error) => {
    if (error instanceof EngineRefusal && statuses.includes(error.status)) return undefined
    throw error
  }
}
