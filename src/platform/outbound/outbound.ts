import { isIP } from 'node:net'
import { ReadableStream } from 'node:stream/web'
import { type Response as Answer, fetch as send } from 'undici'
import { type AgentFor, createPinnedAgents } from './pinned-connections.ts'
import { type Resolve, resolveName } from './public-host.ts'
import {
  findRedirectRefusal,
  findRuleRefusal,
  hostOf,
  isAllowedBy,
  isCanonical,
  isPublicAddress,
  type NetworkTrust,
  RULES,
  type RuleName,
  type Trust,
  toRedirectRule,
  type UrlRefusal,
  type UrlRule,
} from './url-rules.ts'

export type { Trust } from './url-rules.ts'

const TIMEOUT_MS = 30_000
const BYTES_MAX = 10 * 1024 * 1024
const REDIRECTS_MAX = 3

/**
 * Options of a request. `trust` says who chose the URL: `client` for one from the API (https and public addresses only),
 * `operator` for one from the server's configuration (may be private). The deadline includes reading the body.
 */
export type OutboundInit = RequestInit & { trust: Trust; timeoutMs?: number; bytesMax?: number }
export type Outbound = { fetch: (url: string | URL, init: OutboundInit) => Promise<Response> }

type OutboundRefusal =
  | UrlRefusal
  | 'too_many_redirects'
  | 'redirect_not_wanted'
  | 'redirect_needs_body_again'
  | 'header_not_valid'
  | 'response_too_large'

const REFUSAL_MESSAGES: Record<OutboundRefusal, string> = {
  invalid_url: 'it is not a valid URL',
  scheme_not_allowed: 'use https',
  credentials_in_url: 'a URL must not contain a user name or password',
  port_not_allowed: 'use port 443 or one from 1024 up',
  host_not_public: 'the host is not public',
  not_canonical: 'write it in its normalized form',
  redirect_downgrade: 'a redirect must not lead from https to http',
  too_many_redirects: `more than ${REDIRECTS_MAX} redirects`,
  redirect_not_wanted: 'the server answered with a redirect',
  redirect_needs_body_again: 'the redirect asks for a request body that can be sent only once',
  header_not_valid: 'a request header contains a character that is not allowed',
  response_too_large: 'the response is larger than allowed',
}

/** Thrown when the guard refused the request. A retry gives the same result. */
export class OutboundRefused extends Error {
  override name = 'OutboundRefused'
  reason: OutboundRefusal

  constructor(reason: OutboundRefusal, url?: URL | null) {
    super(`Request to ${describeTarget(url)} refused: ${REFUSAL_MESSAGES[reason]}.`)
    this.reason = reason
  }
}

/** Thrown when the server did not respond, or responded with something invalid. A retry may succeed. */
export class OutboundFailed extends Error {
  override name = 'OutboundFailed'
  reason: 'name_not_found' | 'address_not_public' | 'unreachable' | 'timed_out' | 'bad_response'

  constructor(reason: OutboundFailed['reason'], url: URL, detail: string) {
    super(`Request to ${describeTarget(url)} failed: ${detail}.`)
    this.reason = reason
  }
}

/** Returns the reason why a URL must not be stored. Checks only the URL itself; `fetch` also checks the resolved address. */
export function findUrlRefusal(url: string | URL, trust: Trust): UrlRefusal | undefined {
  const text = url.toString()
  const parsed = URL.parse(text)
  if (!parsed) return 'invalid_url'
  return findRuleRefusal(parsed, trust) ?? (isCanonical(text, parsed) ? undefined : 'not_canonical')
}

type OutboundDeps = { resolve: Resolve; agentFor: AgentFor }

/** Creates the guarded client. Name resolution and the dialer can be replaced in tests. */
export function createOutbound(options: Partial<OutboundDeps> = {}): Outbound {
  const deps: OutboundDeps = {
    resolve: options.resolve ?? resolveName,
    agentFor: options.agentFor ?? createPinnedAgents(),
  }
  return {
    async fetch(url, init) {
      const firstHop = await buildFirstHop(url, init)
      const toTimeoutError = () =>
        new OutboundFailed('timed_out', firstHop.url, 'no complete answer within the time allowed')
      const deadline = startDeadline(init.timeoutMs ?? TIMEOUT_MS, toTimeoutError, init.signal ?? undefined)
      try {
        return await followRedirects(deps, firstHop, init, deadline)
      } catch (error) {
        deadline.clear()
        throw deadline.signal.aborted ? deadline.signal.reason : error
      }
    },
  }
}

async function followRedirects(
  deps: OutboundDeps,
  first: Hop,
  init: OutboundInit,
  deadline: Deadline,
): Promise<Response> {
  let hop = first
  for (let redirects = 0; ; redirects += 1) {
    const answer = await sendHop(deps, hop, deadline)
    const target = init.redirect === 'manual' ? undefined : findRedirectTarget(hop.url, answer)
    if (target === undefined) return toResponse(answer, hop.url, init.bytesMax ?? BYTES_MAX, deadline)

    await answer.body?.cancel()
    if (init.redirect === 'error') throw new OutboundRefused('redirect_not_wanted', hop.url)
    if (redirects === REDIRECTS_MAX) throw new OutboundRefused('too_many_redirects', hop.url)
    hop = buildRedirectedHop(hop, answer.status, target, init.trust)
  }
}

async function buildFirstHop(url: string | URL, init: OutboundInit): Promise<Hop> {
  const parsed = URL.parse(url.toString())
  const refusal = parsed ? findRuleRefusal(parsed, init.trust) : 'invalid_url'
  if (!parsed || refusal) throw new OutboundRefused(refusal ?? 'invalid_url', parsed)

  const { content, contentType } = await encodeBody(init.body)
  const headers = readHeaders(init.headers, parsed)
  if (contentType !== undefined && !headers.has('content-type')) headers.set('content-type', contentType)
  return { url: parsed, rule: init.trust, method: init.method?.toUpperCase() ?? 'GET', headers, body: content }
}

/** Reads headers. Replaces the standard error, whose message quotes the value, which may be a key. */
function readHeaders(headers: RequestInit['headers'], url: URL): Headers {
  try {
    return new Headers(headers)
  } catch {
    throw new OutboundRefused('header_not_valid', url)
  }
}

function buildRedirectedHop(hop: Hop, status: number, target: URL | null, trust: Trust): Hop {
  const refusal = target ? findRedirectRefusal(hop.url, target, trust) : 'invalid_url'
  if (!target || refusal) throw new OutboundRefused(refusal ?? 'invalid_url', target)

  const next = buildNextHop(hop, status, target, toRedirectRule(trust))
  if (isStream(next.body)) throw new OutboundRefused('redirect_needs_body_again', hop.url)
  return next
}

async function sendHop(deps: OutboundDeps, hop: Hop, deadline: Deadline): Promise<Answer> {
  const addresses = await resolveAddresses(deps, hop, deadline)
  try {
    return await send(hop.url, {
      method: hop.method,
      headers: [...hop.headers],
      body: hop.body ?? null,
      duplex: 'half',
      redirect: 'manual',
      signal: deadline.signal,
      dispatcher: deps.agentFor(addresses),
    })
  } catch (error) {
    if (error instanceof TypeError && error.cause === undefined) throw error // A programming error, such as GET with a body.
    throw toUnreachableError(hop.url, error)
  }
}

/**
 * Resolves and checks a host once per hop. The connection uses these addresses, which prevents DNS rebinding. An untrusted
 * party gets the same error for a name that does not exist and for a private one: it must not learn our internal names.
 */
export async function resolveAddresses(
  { resolve }: Pick<OutboundDeps, 'resolve'>,
  hop: Pick<Hop, 'url' | 'rule'>,
  deadline: Pick<Deadline, 'signal'>,
): Promise<string[]> {
  const host = hostOf(hop.url)
  const resolution = isIP(host) === 0 ? resolve(host) : Promise.resolve([host])
  if (typeof hop.rule === 'object')
    return requireAllowed(hop.rule, hop.url, await withinDeadline(deadline, requireResolved(resolution, hop.url)))
  if (RULES[hop.rule].publicOnly) {
    const addresses = await withinDeadline(deadline, resolution).catch(() => [])
    if (addresses.length > 0 && addresses.every(isPublicAddress)) return addresses
    throw new OutboundFailed('address_not_public', hop.url, 'the host does not resolve to public addresses only')
  }
  return withinDeadline(deadline, requireResolved(resolution, hop.url))
}

async function requireResolved(resolution: Promise<string[]>, url: URL): Promise<string[]> {
  const addresses = await resolution.catch((error: unknown) => {
    throw new OutboundFailed('name_not_found', url, `the host name could not be resolved (${toErrorCode(error)})`)
  })
  if (addresses.length === 0) throw new OutboundFailed('name_not_found', url, 'the host name has no address')
  return addresses
}

/** Throws unless every address is allowed, because the connection may use any of them. */
function requireAllowed(trust: NetworkTrust, url: URL, addresses: string[]): string[] {
  if (addresses.every((address) => isAllowedBy(trust, url, address))) return addresses
  throw new OutboundFailed('address_not_public', url, ADDRESS_NOT_ALLOWED)
}

const ADDRESS_NOT_ALLOWED = 'the host resolves to an address that is neither public nor in a network of this workspace'

function toResponse(answer: Answer, url: URL, bytesMax: number, deadline: Deadline): Response {
  if (answer.status < 200 || answer.status > 599)
    throw new OutboundFailed('bad_response', url, `status ${answer.status}`)
  const init = { status: answer.status, headers: [...answer.headers] }
  if (!answer.body) {
    deadline.clear()
    return new Response(null, init)
  }
  const body = limitBody(answer.body, {
    bytesMax,
    tooLarge: () => new OutboundRefused('response_too_large', url),
    toError: (error) => toBodyError(error, url, deadline),
    onEnd: deadline.clear,
  })
  return new Response(body, init)
}

function toBodyError(error: unknown, url: URL, { signal }: Deadline): unknown {
  if (error instanceof OutboundRefused) return error
  return signal.aborted ? signal.reason : toUnreachableError(url, error)
}

/** Converts a connection error. Only its code is kept: the message may quote a header or the URL, and messages are logged. */
const toUnreachableError = (url: URL, error: unknown) =>
  new OutboundFailed('unreachable', url, `the connection broke or could not be made (${toErrorCode(error)})`)

/** Returns the code of an error or of its cause, for messages. */
export function toErrorCode(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  if ('code' in error && typeof error.code === 'string') return error.code
  return error.cause === undefined ? error.name : toErrorCode(error.cause)
}

/** Describes a URL without path and query, which contain the secret of webhook URLs. */
function describeTarget(url: URL | null | undefined): string {
  if (!url) return 'a malformed URL'
  return url.origin === 'null' ? `a ${url.protocol} URL` : url.origin
}

type Deadline = { signal: AbortSignal; clear: () => void }

/** Starts a deadline. Also aborts with the caller's signal, for the caller's reason. */
function startDeadline(timeoutMs: number, toTimeoutError: () => Error, caller: AbortSignal | undefined): Deadline {
  const timeout = new AbortController()
  const timer = setTimeout(() => timeout.abort(toTimeoutError()), timeoutMs)
  timer.unref()
  const signal = caller ? AbortSignal.any([timeout.signal, caller]) : timeout.signal
  return { signal, clear: () => clearTimeout(timer) }
}

/** Stops waiting at the deadline, for work that cannot be canceled, such as a name lookup. */
async function withinDeadline<Result>({ signal }: Pick<Deadline, 'signal'>, work: Promise<Result>): Promise<Result> {
  signal.throwIfAborted()
  const ended = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  return Promise.race([work, ended])
}

/** A request: the first one, or the next one of a redirect chain. */
type Hop = { url: URL; rule: UrlRule; method: string; headers: Headers; body: SentBody }

/** Headers that contain credentials. They are only sent to the origin they were meant for. */
const CREDENTIAL_HEADERS = [
  'authorization',
  'proxy-authorization',
  'cookie',
  'x-api-key',
  'x-goog-api-key',
  'api-key',
  'private-token',
]
const BODY_HEADERS = ['content-type', 'content-encoding', 'content-language', 'content-location', 'content-length']
const REDIRECTS = [301, 302, 303, 307, 308]

/** Finds the target of a redirect. Returns null if it is not a valid URL, undefined if there is no redirect. */
function findRedirectTarget(
  from: URL,
  answer: { status: number; headers: { get(name: string): string | null } },
): URL | null | undefined {
  const location = answer.headers.get('location')
  if (!REDIRECTS.includes(answer.status) || location === null) return undefined
  return URL.parse(location, from.href)
}

/** Builds the next request by the rules of the fetch standard: 303, and 301 or 302 after a POST, become a GET. */
function buildNextHop(hop: Hop, status: number, url: URL, rule: RuleName): Hop {
  const headers = new Headers(hop.headers)
  if (url.origin !== hop.url.origin) for (const name of CREDENTIAL_HEADERS) headers.delete(name)
  if (!becomesGet(hop.method, status)) return { url, rule, method: hop.method, headers, body: hop.body }

  for (const name of BODY_HEADERS) headers.delete(name)
  return { url, rule, method: 'GET', headers, body: undefined }
}

function becomesGet(method: string, status: number): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD'
  return (status === 301 || status === 302) && method === 'POST'
}

type SentBody = Uint8Array<ArrayBuffer> | AsyncIterable<Uint8Array> | undefined

/**
 * Encodes a body as bytes where possible: bytes can be sent again after a redirect, and undici does not know Node's own
 * FormData. The content type is the one that the body implies, such as the boundary of a form.
 */
async function encodeBody(body: RequestInit['body']): Promise<{ content: SentBody; contentType: string | undefined }> {
  if (body === undefined || body === null) return { content: undefined, contentType: undefined }
  if (isStream(body)) return { content: body, contentType: undefined }
  const encoded = new Response(body)
  const content = new Uint8Array(await encoded.arrayBuffer())
  return { content, contentType: encoded.headers.get('content-type') ?? undefined }
}

function isStream(body: unknown): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body
}

type BodyLimits = {
  bytesMax: number
  tooLarge: () => Error
  /** Converts an error of the connection. */
  toError: (error: unknown) => unknown
  onEnd: () => void
}

/** Limits the decompressed size, so that a small body that unpacks to gigabytes is stopped too. */
function limitBody(body: ReadableStream<Uint8Array>, limits: BodyLimits): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let bytes = 0
  const readNext = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    const { done, value } = await reader.read()
    if (done) return end(controller)
    bytes += value.byteLength
    if (bytes > limits.bytesMax) throw limits.tooLarge()
    controller.enqueue(value)
  }
  const end = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    limits.onEnd()
    controller.close()
  }
  const stop = async (reason: unknown) => {
    limits.onEnd()
    await reader.cancel(reason).catch(() => undefined) // The reader may have failed already.
  }
  return new ReadableStream<Uint8Array>(
    {
      pull: (controller) =>
        readNext(controller).catch(async (error: unknown) => {
          await stop(error)
          throw limits.toError(error)
        }),
      cancel: stop,
    },
    { highWaterMark: 0 },
  )
}
