import { timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { csrfTokenInvalid, forbidden, malformedBody, notFound, Problem, unauthenticated } from '../problem.ts'
import { type Authenticate, type Caller, type KeyCaller, type PresentedSecrets, permits, toScope } from './caller.ts'
import type { Endpoint } from './endpoint.ts'
import type { RateLimiter } from './rate-limit.ts'
import { NOT_FOUND_DETAIL } from './respond.ts'

export const SESSION_COOKIE = 'assay_session'

type AdmissionRequest = { request: IncomingMessage; params: Record<string, string>; address: string }
type AdmittedCaller = { caller: Caller | undefined; headers: Record<string, string> }
/** `all` is undefined while rate limits are off. Failed sign-ins are always limited. */
export type RequestLimiters = { all: RateLimiter | undefined; signIn: RateLimiter }

/** Authenticates and authorises a request: 401 without a valid key, 404 for another workspace, 403 for too low a permission. */
export async function admit(
  deps: { authenticate: Authenticate },
  limits: RequestLimiters,
  endpoint: Endpoint,
  received: AdmissionRequest,
): Promise<AdmittedCaller> {
  if (endpoint.access === 'public')
    return { caller: undefined, headers: admitPublic(limits, endpoint, received.address) }
  const caller = await deps.authenticate(readPresentedSecrets(received.request.headers))
  if (!caller) throw newUnauthenticated()

  const headers = limits.all?.take(caller.by === 'key' ? `key ${caller.keyId}` : 'operator') ?? {}
  if (endpoint.access === 'operator') requireOperator(caller)
  else requireKey(endpoint, caller, received)
  return { caller, headers }
}

/**
 * Takes a token for the address of a public request and returns the rate-limit headers. A sign-in takes none here, because
 * only attempts whose body has arrived completely count.
 */
export function admitPublic(limits: RequestLimiters, { signIn }: Endpoint, address: string): Record<string, string> {
  if (signIn !== undefined) return {}
  return limits.all?.take(`address ${address}`) ?? {}
}

export function readPresentedSecrets(headers: IncomingHttpHeaders): PresentedSecrets {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
  if (bearer) return { bearer }
  const sessionToken = findCookie(headers.cookie ?? '', SESSION_COOKIE)
  return sessionToken ? { sessionToken } : {}
}

const findCookie = (header: string, name: string): string | undefined =>
  header
    .split(';')
    .map((part) => part.trim())
    .find((part) => part.startsWith(`${name}=`))
    ?.slice(name.length + 1)

export const newUnauthenticated = () =>
  new Problem(unauthenticated, 'The key is missing, malformed, expired or revoked.', {
    headers: { 'www-authenticate': 'Bearer' },
  })

function requireOperator(caller: Caller): void {
  if (caller.by !== 'operator') throw new Problem(forbidden, 'Only the operator key may do this.')
}

function requireKey(endpoint: Endpoint, caller: Caller, { request, params }: AdmissionRequest): void {
  // The operator key belongs to no workspace, so inside one it is not a valid key.
  if (caller.by !== 'key') throw newUnauthenticated()
  if (params.org !== undefined && params.org.toLowerCase() !== caller.workspace.login.toLowerCase()) {
    throw new Problem(notFound, NOT_FOUND_DETAIL)
  }
  requirePermission(endpoint, caller)
  if (caller.session && request.method !== 'GET') requireCsrfToken(caller.session.csrfToken, request)
}

function requirePermission(endpoint: Endpoint, caller: KeyCaller): void {
  const requiredAccess = endpoint.access
  if (requiredAccess !== 'read' && requiredAccess !== 'write' && requiredAccess !== 'admin') return
  if (permits(caller.permission, requiredAccess)) return
  throw new Problem(forbidden, `This needs a key with permission ${requiredAccess}; this one has ${caller.permission}.`)
}

function requireCsrfToken(expected: string, request: IncomingMessage): void {
  const sentBytes = Buffer.from(String(request.headers['x-csrf-token'] ?? ''))
  const expectedBytes = Buffer.from(expected)
  if (sentBytes.length === expectedBytes.length && timingSafeEqual(sentBytes, expectedBytes)) return
  throw new Problem(csrfTokenInvalid, 'A browser session sends its CSRF token as X-CSRF-Token with every change.')
}

const RECHECK_MS = 500

/** A stream subscriber. The signal aborts when its key or session is revoked or expires. */
type StreamSubscriber = { signal: AbortSignal; leave(): void }

/** Revalidates the callers of open streams, once per key for all of its streams in this process. */
export function watchCallers(authenticate: Authenticate) {
  const streamsByCaller = new Map<string, Set<AbortController>>()

  async function recheck(callerKey: string, presented: PresentedSecrets, streams: Set<AbortController>): Promise<void> {
    while (streams.size > 0) {
      await wait(RECHECK_MS, undefined, { ref: false })
      const isValid = await authenticate(presented).then(
        (caller) => caller !== undefined,
        () => true, // A database outage says nothing about the key.
      )
      if (isValid) continue
      for (const stream of streams) stream.abort()
      break
    }
    streamsByCaller.delete(callerKey)
  }

  return (presented: PresentedSecrets): StreamSubscriber => {
    const callerKey = JSON.stringify(presented)
    const existing = streamsByCaller.get(callerKey)
    const streams = existing ?? new Set()
    const stream = new AbortController()
    streams.add(stream)
    streamsByCaller.set(callerKey, streams)
    if (!existing) void recheck(callerKey, presented, streams)
    return { signal: stream.signal, leave: () => void streams.delete(stream) }
  }
}

/**
 * Maximum number of open requests of a workspace, from the first byte of the body to the last of the answer. It limits the
 * memory and disk that clients who send or read slowly can take.
 */
export const OPEN_REQUESTS_MAX = 64

type RequestOrigin = { caller: Caller | undefined; address: string }

/** Takes a slot for an open request, waiting for a free one. */
export type TakeOpenSlot = (endpoint: Endpoint, outgoing: ServerResponse, from: RequestOrigin) => Promise<OpenRequest>

/** Maximum number of long requests of a workspace that work at once: downloads of datasets and searches in repositories. */
export const LONG_REQUESTS_MAX = 4

type OpenRequest = {
  /** Takes a slot for the work of the request, as soon as the unread answers of its workspace are within their limit. */
  takeWorkSlot(): Promise<Disposable | undefined>
  /** Runs the work of the request. If it reports progress, it waits while `LONG_REQUESTS_MAX` others of its workspace run. */
  runWork<T>(work: () => Promise<T>): Promise<T>
  /** Counts the answer as unread: it takes memory until the client has read it. */
  countAnswer(bytes: number): void
}

/**
 * Limits the requests of each workspace, and of each address for requests without a key. A workspace with many requests
 * then delays only its own: memory, database connections and time on the event loop remain for the others.
 */
export function createFairShares(requestsAtOnce: number): TakeOpenSlot {
  const takeOpenSlot = createSlots(OPEN_REQUESTS_MAX)
  const takeShortSlot = createSlots(requestsAtOnce)
  const takeLongSlot = createSlots(LONG_REQUESTS_MAX)
  const unread = createUnreadAnswers()
  return async (endpoint, outgoing, { caller, address }) => {
    const share = caller ? toScope(caller) : `address ${address}`
    // Bodies without a key are small, and a valid sign-in must not wait for others of its address.
    if (caller) holdUntilAnswered(await takeOpenSlot(share), endpoint, outgoing)
    return {
      async takeWorkSlot() {
        const slot = await takeWorkSlot(takeShortSlot, endpoint, outgoing, share)
        // The request waits while it holds the slot: `waitUntilRead` continues all waiting requests at once.
        await unread.waitUntilRead(share)
        return slot
      },
      async runWork(run) {
        if (endpoint.progress === undefined) return run()
        using _slot = await takeLongSlot(share)
        return await run()
      },
      countAnswer: (bytes) => unread.add(share, outgoing, bytes),
    }
  }
}

/** Holds a slot until the answer has been sent or the client has left; for an event stream until it begins. */
function holdUntilAnswered(slot: Disposable, { events }: Endpoint, outgoing: ServerResponse): void {
  if (events !== undefined || outgoing.destroyed) slot[Symbol.dispose]()
  else outgoing.once('close', () => slot[Symbol.dispose]())
}

/**
 * Takes a slot for the work of a request, except for work that reports progress: it takes minutes, and `runWork` limits it.
 * Uploads take long too, and have slots of their own.
 */
async function takeWorkSlot(takeSlot: TakeSlot, endpoint: Endpoint, outgoing: ServerResponse, share: string) {
  if (endpoint.progress !== undefined) return undefined
  const slot = await takeSlot(endpoint.upload === undefined ? share : `uploads of ${share}`)
  if (!outgoing.destroyed) return slot
  slot[Symbol.dispose]()
  throw new Problem(malformedBody, 'The client disconnected before its request was handled.')
}

/** Takes a slot of a workspace or an address, or waits for one. Waiting requests continue in the order of their arrival. */
type TakeSlot = (share: string) => Promise<Disposable>

function createSlots(perShare: number): TakeSlot {
  const shares = new Map<string, { taken: number; waiting: (() => void)[] }>()
  const release = (name: string) => {
    const share = shares.get(name)
    if (!share) return
    const next = share.waiting.shift()
    if (next) return next()
    share.taken -= 1
    if (share.taken === 0) shares.delete(name)
  }
  return async (name) => {
    const share = shares.get(name) ?? { taken: 0, waiting: [] }
    shares.set(name, share)
    if (share.taken < perShare) share.taken += 1
    else await new Promise<void>((resolve) => share.waiting.push(resolve))
    return { [Symbol.dispose]: () => release(name) }
  }
}

/** Smaller answers are not counted: the buffers of the connection take them. */
const COUNTED_BYTES_MIN = 64 * 1024

type UnreadLimits = {
  /** Maximum size of the answers of a workspace, or of an address without a key, that wait for their readers. */
  bytesMax: number
  /** Maximum time for which a request waits until answers have been read. */
  waitMs: number
}

const DEFAULT_LIMITS: UnreadLimits = { bytesMax: 64 * 1024 * 1024, waitMs: 10_000 }

type UnreadAnswer = { bytes: number; outgoing: ServerResponse }
type UnreadShare = { bytes: number; answers: Set<UnreadAnswer>; waiting: Set<() => void> }

/**
 * Limits the memory of answers that clients read slowly. While a workspace has too many of them, its requests wait; after
 * a while the oldest unread answer is ended, so that slow readers do not stop others of their workspace.
 */
export function createUnreadAnswers({ bytesMax, waitMs }: UnreadLimits = DEFAULT_LIMITS) {
  const shares = new Map<string, UnreadShare>()

  const remove = (name: string, share: UnreadShare, answer: UnreadAnswer): void => {
    share.answers.delete(answer)
    share.bytes -= answer.bytes
    if (share.answers.size === 0) shares.delete(name)
    for (const wake of share.waiting) wake()
  }

  return {
    /** Counts an answer until it has been sent or its client has left. */
    add(name: string, outgoing: ServerResponse, bytes: number): void {
      if (bytes < COUNTED_BYTES_MIN || outgoing.destroyed) return
      const share: UnreadShare = shares.get(name) ?? { bytes: 0, answers: new Set(), waiting: new Set() }
      shares.set(name, share)
      const answer = { bytes, outgoing }
      share.answers.add(answer)
      share.bytes += bytes
      outgoing.once('close', () => remove(name, share, answer))
    },
    /** Waits until the unread answers are within the limit. */
    async waitUntilRead(name: string): Promise<void> {
      for (let share = shares.get(name); share && share.bytes > bytesMax; share = shares.get(name)) {
        const hasAnswerEnded = await waitForEnd(share, waitMs)
        const [oldest] = share.answers
        if (!hasAnswerEnded) oldest?.outgoing.destroy()
      }
    },
  }
}

/** Waits until an answer has ended. Returns false if none does in time. */
async function waitForEnd({ waiting }: UnreadShare, waitMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const wake = () => resolve(true)
  const timer = setTimeout(() => resolve(false), waitMs)
  waiting.add(wake)
  try {
    return await promise
  } finally {
    clearTimeout(timer)
    waiting.delete(wake)
  }
}
