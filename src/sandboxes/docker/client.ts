import { type IncomingMessage, request as plainRequest, type RequestOptions } from 'node:http'
import { request as secureRequest } from 'node:https'
import { type Duplex, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { adviceFor, type DockerConnection, routeTo } from './connection.ts'

type DockerMethod = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE'
type DockerQuery = Record<string, string | number | boolean | undefined>
type DockerRequest = {
  query?: DockerQuery
  body?: unknown
  signal?: AbortSignal
  headers?: Record<string, string>
  /** Deadline for the whole answer, or for the beginning of a stream. Null: the signal is the only deadline. */
  timeoutMs?: number | null
}

/** Timeout of ordinary requests. An engine under heavy load takes seconds. */
const ANSWER_MS = 60_000
/** Timeout of requests that transfer or copy all files of a sandbox. */
export const TRANSFER_MS = 15 * 60_000

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
  call<T>(method: DockerMethod, path: string, ask?: DockerRequest): Promise<T>
  /** Sends a request and returns the response body as a stream, with its headers. */
  open(method: DockerMethod, path: string, ask?: DockerRequest): Promise<IncomingMessage>
  /** Opens the input and output of a container, or of a command in it, as a duplex stream. */
  attach(path: string, ask?: DockerRequest): Promise<Duplex>
  /** Sets the API version of all later requests. */
  useVersion(version: string): void
  close(): void
}

/** Creates a client of the Docker API. Connections are kept alive. */
export function connectDocker(connection: DockerConnection): Docker {
  const { secure, ...route } = routeTo(connection)
  const send = secure ? secureRequest : plainRequest
  let prefix = ''

  const begin = (method: DockerMethod, path: string, { query = {}, body, signal, headers = {} }: DockerRequest) => {
    const options: RequestOptions = { ...route, method, path: `${prefix}${path}${queryText(query)}`, headers }
    const bytes = body === undefined || body instanceof Readable ? undefined : JSON.stringify(body)
    if (bytes !== undefined) {
      options.headers = { ...headers, 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }
    }
    const sent = send({ ...options, signal })
    if (body instanceof Readable)
      void pipeline(body, sent).catch(() => {}) // reported by the request
    else sent.end(bytes)
    return sent
  }

  const open: Docker['open'] = async (method, path, ask = {}) => {
    const answer = Promise.withResolvers<IncomingMessage>()
    let current: { destroy(error: Error): unknown } = begin(method, path, ask)
      .once('response', (message) => {
        current = message.once('close', () => clearTimeout(clock))
        answer.resolve(message)
      })
      .on('error', (error) => answer.reject(unreachable(connection, error, ask.signal)))
    const clock = startClock(ask, () => current.destroy(tooLate(method, path)))
    answer.promise.catch(() => clearTimeout(clock))
    return accepted(await answer.promise)
  }

  return {
    open,
    async call<T>(method: DockerMethod, path: string, ask?: DockerRequest) {
      const body = await readAnswer(await open(method, path, ask))
      const parsed = body === '' ? '' : parseUntrustedJson(body)
      if (parsed === undefined)
        throw new SandboxUnavailable(`The Docker engine sent an invalid answer to ${method} ${path}.`)
      return (parsed === '' ? undefined : parsed) as T
    },
    async attach(path, ask = {}) {
      const joined = Promise.withResolvers<Duplex>()
      const headers = { connection: 'Upgrade', upgrade: 'tcp' }
      const sent = begin('POST', path, { ...ask, headers })
        .once('upgrade', (_answer, socket, head) => {
          if (head.length > 0) socket.unshift(head)
          joined.resolve(socket)
        })
        .once('response', (answer) => accepted(answer).then(() => joined.reject(noStream()), joined.reject))
        .on('error', (error) => joined.reject(unreachable(connection, error, ask.signal)))
      const clock = startClock(ask, () => sent.destroy(tooLate('POST', path)))
      return joined.promise.finally(() => clearTimeout(clock))
    },
    useVersion(version) {
      prefix = `/v${version}`
    },
    close: () => route.agent.destroy(),
  }
}

const queryText = (query: DockerQuery): string => {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value))
  return parameters.size === 0 ? '' : `?${parameters}`
}

const startClock = ({ timeoutMs = ANSWER_MS }: DockerRequest, onLate: () => void): NodeJS.Timeout | undefined =>
  timeoutMs === null ? undefined : setTimeout(onLate, timeoutMs).unref()

const tooLate = (method: DockerMethod, path: string): SandboxUnavailable =>
  new SandboxUnavailable(`The Docker engine did not finish ${method} ${path} in time.`)

const noStream = (): SandboxUnavailable => new SandboxUnavailable('The Docker engine gave no stream.')

/** A workspace can name an engine of its own, whose answers must not fill the memory of the worker. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024

async function readAnswer(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer) {
    bytes += chunk.length
    if (bytes > ANSWER_BYTES_MAX) throw new SandboxUnavailable('The Docker engine sent an answer that is too large.')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

async function accepted(answer: IncomingMessage): Promise<IncomingMessage> {
  const status = answer.statusCode ?? 0
  if (status < 400) return answer
  throw new EngineRefusal(status, messageIn(await readAnswer(answer)) || `The Docker engine answered ${status}.`)
}

const MESSAGE_LENGTH_MAX = 10_000
const ErrorAnswer = z.object({ message: z.string().transform((text) => text.slice(0, MESSAGE_LENGTH_MAX)) })

function messageIn(body: string): string {
  const parsed = ErrorAnswer.safeParse(parseUntrustedJson(body))
  return parsed.success ? parsed.data.message : body.slice(0, MESSAGE_LENGTH_MAX)
}

function unreachable(connection: DockerConnection, error: Error, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason
  if (error instanceof SandboxUnavailable) return error
  return new SandboxUnavailable(`The Docker engine does not answer: ${error.message}. ${adviceFor(connection)}`, {
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
