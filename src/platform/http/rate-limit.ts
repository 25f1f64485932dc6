import { Problem, rateLimited } from '../problem.ts'

export type Limit = { requests: number; seconds: number }
export type RateLimiter = {
  /** Takes one token. Throws 429 when none is left. */
  take(who: string): Record<string, string>
  /** Returns a token that was taken for something that does not count after all. */
  give(who: string): void
}

const TRACKED_MAX = 100_000

/**
 * A token bucket for each caller, in this process. Answers the headers that tell the caller where it stands.
 * The oldest callers are forgotten first, so that a flood of addresses cannot fill the memory.
 */
export function rateLimiter(limit: Limit, now: () => number = Date.now): RateLimiter {
  const buckets = new Map<string, { tokens: number; at: number }>()
  const perMs = limit.requests / (limit.seconds * 1000)
  const policy = `"default";q=${limit.requests};w=${limit.seconds}`

  return {
    take(who) {
      const at = now()
      const bucket = buckets.get(who) ?? { tokens: limit.requests, at }
      const tokens = Math.min(limit.requests, bucket.tokens + (at - bucket.at) * perMs)
      remember(buckets, who, { tokens: tokens >= 1 ? tokens - 1 : tokens, at })
      if (tokens >= 1)
        return headers(policy, Math.floor(tokens - 1), Math.ceil((limit.requests - tokens + 1) / perMs / 1000))

      const waitSeconds = Math.max(1, Math.ceil((1 - tokens) / perMs / 1000))
      throw new Problem(rateLimited, `More than ${limit.requests} requests in ${limit.seconds} s.`, {
        headers: { ...headers(policy, 0, waitSeconds), 'retry-after': String(waitSeconds) },
      })
    },
    give(who) {
      const bucket = buckets.get(who)
      if (bucket) bucket.tokens = Math.min(limit.requests, bucket.tokens + 1)
    },
  }
}

function remember<T>(buckets: Map<string, T>, who: string, bucket: T): void {
  buckets.delete(who)
  buckets.set(who, bucket)
  if (buckets.size <= TRACKED_MAX) return
  const [oldest] = buckets.keys()
  if (oldest !== undefined) buckets.delete(oldest)
}

const headers = (policy: string, remaining: number, resetSeconds: number): Record<string, string> => ({
  'ratelimit-policy': policy,
  ratelimit: `"default";r=${remaining};t=${resetSeconds}`,
})
