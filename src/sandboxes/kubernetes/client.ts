import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { SandboxUnavailable, SandboxUnreachable } from '../sandbox.ts'
import type { KubernetesConnection } from './connection.ts'

type KubernetesMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
type KubernetesRequest = {
  query?: Record<string, string | string[]>
  body?: unknown
}

const ANSWER_TIMEOUT_MS = 30_000

/** Thrown when the API server answers with an error status that a caller may handle. `reason` is a word of the API, such as `AlreadyExists`. */
export class ApiRefusal extends Error {
  override name = 'ApiRefusal'
  readonly status: number
  readonly reason: string

  constructor(status: number, reason: string, message: string) {
    super(message)
    this.status = status
    this.reason = reason
  }
}

export type Kubernetes = {
  /** Sends a request and returns the JSON of the response. The type is not checked. */
  call<T>(method: KubernetesMethod, path: string, options?: KubernetesRequest): Promise<T>
  /** Opens a WebSocket with the protocol of exec and attach. Resolves when the socket is open. */
  openSocket(path: string, query: Record<string, string | string[]>): Promise<WebSocket>
  close(): void
}

/** Creates a client of the Kubernetes API. Connections are kept alive. */
export function connectKubernetes(connection: KubernetesConnection): Kubernetes {
  const { server, ca, cert, key, token } = connection
  const agent = new Agent({ keepAlive: true, maxSockets: 32, ca, cert, key })
  const authorization = async (): Promise<Record<string, string>> =>
    token ? { authorization: `Bearer ${await token()}` } : {}

  return {
    async call(method, path, { query = {}, body } = {}) {
      const bytes = body === undefined ? undefined : JSON.stringify(body)
      const headers = {
        ...(await authorization()),
        accept: 'application/json',
        ...(bytes === undefined ? {} : describeBody(method, bytes)),
      }
      const answer = Promise.withResolvers<IncomingMessage>()
      const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS)
      request(new URL(`${path}${formatQuery(query)}`, server), { method, agent, headers, signal })
        .once('response', answer.resolve)
        .on('error', (error) => answer.reject(toUnreachableError(server, error)))
        .end(bytes)
      const message = await answer.promise
      const content = await text(message).catch((error: Error) => Promise.reject(toUnreachableError(server, error)))
      if ((message.statusCode ?? 0) >= 400) throw toApiError(message.statusCode ?? 0, content)
      return JSON.parse(content)
    },
    async openSocket(path, query) {
      const url = new URL(`${path}${formatQuery(query)}`, server.replace(/^http/, 'ws'))
      const socket = new WebSocket(url, [PROTOCOL], {
        ca,
        cert,
        key,
        headers: await authorization(),
        perMessageDeflate: false,
        handshakeTimeout: ANSWER_TIMEOUT_MS,
      })
      const opened = Promise.withResolvers<void>()
      socket.once('open', opened.resolve)
      socket.on('error', (error) => opened.reject(toUnreachableError(server, error)))
      socket.once('unexpected-response', (_request, answer) => {
        text(answer).then((content) => opened.reject(toApiError(answer.statusCode ?? 0, content)), opened.reject)
      })
      await opened.promise
      return socket
    },
    close: () => agent.destroy(),
  }
}

/** Content type of a patch that identifies the containers of a pod by their names. */
const PATCH_TYPE = 'application/strategic-merge-patch+json'

const describeBody = (method: KubernetesMethod, bytes: string) => ({
  'content-type': method === 'PATCH' ? PATCH_TYPE : 'application/json',
  'content-length': Buffer.byteLength(bytes),
})

/** Version 5 can close standard input, which exec needs. Kubernetes 1.30 and later have it. */
const PROTOCOL = 'v5.channel.k8s.io'

function formatQuery(query: Record<string, string | string[]>): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) for (const each of [value].flat()) parameters.append(name, each)
  return parameters.size === 0 ? '' : `?${parameters}`
}

function toUnreachableError(server: string, error: Error): Error {
  if (error instanceof SandboxUnavailable || error instanceof ApiRefusal) return error
  return new SandboxUnreachable(
    `The Kubernetes API server ${server} does not answer: ${error.message}. Check the address and the network.`,
    { cause: error },
  )
}

type ApiStatus = { message?: string; reason?: string }

/** Converts an error answer: SandboxUnavailable if a retry can succeed later, ApiRefusal otherwise. */
export function toApiError(status: number, content: string): Error {
  const { message = content.slice(0, 500), reason = '' } = parseStatus(content)
  if (status === 401)
    return new SandboxUnavailable(
      'The Kubernetes API server does not accept the credential. Its token or certificate has expired or was revoked: renew it.',
    )
  if (status === 403 && /exceeded quota|exceeded your quota/i.test(message)) return new QuotaExceeded(message)
  if (status === 403) return new SandboxUnavailable(describeForbidden(message))
  if (status === 429 || status >= 500)
    return new SandboxUnreachable(`The Kubernetes API server answered ${status}: ${message}`)
  return new ApiRefusal(status, reason, message)
}

/** Thrown when the quota of the namespace allows no more sandboxes at the moment. The message is that of the cluster. */
export class QuotaExceeded extends SandboxUnavailable {
  override name = 'QuotaExceeded'

  constructor(message: string) {
    super(`The cluster has no room for another sandbox: ${message}`)
  }
}

function parseStatus(content: string): ApiStatus {
  try {
    const parsed: unknown = JSON.parse(content)
    return typeof parsed === 'object' && parsed !== null ? parsed : {}
  } catch {
    return {}
  }
}

/** Names the verb and the resource of a missing permission. */
function describeForbidden(message: string): string {
  const [, verb, resource] = /cannot (\S+) resource "([^"]+)"/.exec(message) ?? []
  if (verb === undefined) return `The Kubernetes API server refused a request: ${message}`
  return `The Kubernetes credential may not ${verb} ${resource}. Grant this permission in the namespace: ${message}`
}

const REMOVAL_TIMEOUT_MS = 60_000

/** Deletes an object and waits until the cluster no longer lists it. */
export async function deleteAndWait(
  kubernetes: Kubernetes,
  path: string,
  { body, timeoutMessage }: { body?: unknown; timeoutMessage: string },
): Promise<void> {
  const find = (): Promise<unknown> => kubernetes.call('GET', path).catch(ignoringStatus(404))
  const removed = await kubernetes.call('DELETE', path, { body }).catch(ignoringStatus(404))
  if (removed === undefined) return
  const deadline = performance.now() + REMOVAL_TIMEOUT_MS
  for (let pauseMs = 20; (await find()) !== undefined; pauseMs = Math.min(pauseMs * 2, 500)) {
    if (performance.now() > deadline) throw new SandboxUnavailable(timeoutMessage)
    await wait(pauseMs)
  }
}

/** Returns an error handler that ignores these statuses, for objects that may already be removed. */
export function ignoringStatus(...statuses: number[]): (error: unknown) => undefined {
  return (error) => {
    if (error instanceof ApiRefusal && statuses.includes(error.status)) return undefined
    throw error
  }
}
