import { Problem, rateLimited, unauthenticated } from '../problem.ts'
import { type Caller, toScope } from './caller.ts'
import type { HttpAnswer } from './idempotency.ts'

export type RateLimit = { requests: number; seconds: number }
export type RateLimiter = {
  /** Takes one token and returns the rate-limit headers. Throws 429 when none is left. */
  take(caller: string): Record<string, string>
  /** Returns the rate-limit headers without taking a token. Throws 429 when none is left. */
  check(caller: string): Record<string, string>
}

/** Maximum number of callers whose tokens are remembered. */
const TRACKED_MAX = 100_000

/**
 * Creates a limiter with a token bucket per caller, for this process only. Evicts the least recently used callers, so
 * that a flood of addresses cannot fill the memory.
 */
export function createRateLimiter(limit: RateLimit, now: () => number = Date.now): RateLimiter {
  const buckets = new Map<string, { tokens: number; at: number }>()
  const tokensPerMs = limit.requests / (limit.seconds * 1000)
  const policy = `"default";q=${limit.requests};w=${limit.seconds}`

  return {
    take(caller) {
      const at = now()
      const tokens = countTokens(caller, at)
      storeBucket(buckets, caller, { tokens: tokens >= 1 ? tokens - 1 : tokens, at })
      return requireToken(tokens, 1)
    },
    check: (caller) => requireToken(countTokens(caller, now()), 0),
  }

  function countTokens(caller: string, at: number): number {
    const bucket = buckets.get(caller) ?? { tokens: limit.requests, at }
    return Math.min(limit.requests, bucket.tokens + (at - bucket.at) * tokensPerMs)
  }

  function requireToken(tokens: number, taken: 0 | 1): Record<string, string> {
    if (tokens >= 1) {
      const remaining = tokens - taken
      return buildHeaders(policy, Math.floor(remaining), Math.ceil((limit.requests - remaining) / tokensPerMs / 1000))
    }
    const waitSeconds = Math.max(1, Math.ceil((1 - tokens) / tokensPerMs / 1000))
    const detail = `More than ${limit.requests} requests in ${limit.seconds} s. Try again in ${waitSeconds} s.`
    throw new Problem(rateLimited, detail, {
      headers: { ...buildHeaders(policy, 0, waitSeconds), 'retry-after': String(waitSeconds) },
    })
  }
}

function storeBucket<T>(buckets: Map<string, T>, caller: string, bucket: T): void {
  buckets.delete(caller)
  buckets.set(caller, bucket)
  if (buckets.size <= TRACKED_MAX) return
  const [oldest] = buckets.keys()
  if (oldest !== undefined) buckets.delete(oldest)
}

const buildHeaders = (policy: string, remaining: number, resetSeconds: number): Record<string, string> => ({
  'ratelimit-policy': policy,
  ratelimit: `"default";r=${remaining};t=${resetSeconds}`,
})

/** Maximum number of event streams that one key has open in this process. */
export const STREAMS_PER_KEY_MAX = 50
/** Maximum for all keys of a workspace together. Each key with a stream is looked up twice a second. */
export const STREAMS_PER_WORKSPACE_MAX = 200
const RETRY_SECONDS = 10

/** Counts a stream of a caller until the returned function is called. Throws 429 when the caller has too many. */
export type CountStream = (caller: Caller | undefined) => () => void

/** Creates the limit on event streams of this process. */
export function createStreamLimiter(): CountStream {
  const keys = createStreamCounter(STREAMS_PER_KEY_MAX, 'This key')
  const workspaces = createStreamCounter(STREAMS_PER_WORKSPACE_MAX, 'This workspace')
  return (caller) => {
    const key = caller?.by === 'key' ? caller.keyId : 'operator'
    const workspace = toScope(caller)
    keys.requireBelowMax(key)
    workspaces.requireBelowMax(workspace)
    keys.add(key, 1)
    workspaces.add(workspace, 1)
    return () => {
      keys.add(key, -1)
      workspaces.add(workspace, -1)
    }
  }
}

function createStreamCounter(max: number, owner: string) {
  const counts = new Map<string, number>()
  return {
    requireBelowMax(name: string): void {
      if ((counts.get(name) ?? 0) < max) return
      const detail = `${owner} has ${max} event streams open. Close one first.`
      throw new Problem(rateLimited, detail, { headers: { 'retry-after': String(RETRY_SECONDS) } })
    },
    add(name: string, by: 1 | -1): void {
      const count = (counts.get(name) ?? 0) + by
      if (count > 0) counts.set(name, count)
      else counts.delete(name)
    },
  }
}

/** Length of the prefix that tells keys apart: `assay_` and eight characters. */
const PREFIX_LENGTH = 14

/**
 * Limits failed sign-ins. Only a failure takes a token, for its address and the prefix of its key, so that any number of
 * valid sign-ins can be under way at once. Failures also count for the address as a whole; that limit refuses only further
 * failures, so that one client behind a proxy or a NAT cannot lock out the others.
 */
export async function limitSignIn(
  limiter: RateLimiter,
  { address, secret }: { address: string; secret: string },
  signIn: () => Promise<HttpAnswer>,
): Promise<HttpAnswer> {
  const key = `sign-in ${address} ${secret.slice(0, PREFIX_LENGTH)}`
  const headers = limiter.check(key)
  try {
    const answer = await signIn()
    return { ...answer, headers: { ...answer.headers, ...headers } }
  } catch (error) {
    if (!(error instanceof Problem) || error.kind !== unauthenticated) throw error
    limiter.take(key)
    limiter.take(`sign-in ${address}`)
    throw error
  }
}
