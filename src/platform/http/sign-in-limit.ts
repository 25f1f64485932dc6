import { Problem, unauthenticated } from '../problem.ts'
import type { Answer } from './idempotency.ts'
import type { RateLimiter } from './rate-limit.ts'

/** Long enough to tell keys apart: `assay_` and eight characters. */
const PREFIX_LENGTH = 14

/**
 * Limits failed sign-ins. Each attempt takes a token for its address and the prefix of its key, and a successful one
 * returns it. Failures also count for the address as a whole; that limit refuses only further failures, so that one
 * client behind a proxy or a NAT cannot lock out the others.
 */
export async function limitSignIn(
  limiter: RateLimiter,
  { address, secret }: { address: string; secret: string },
  signIn: () => Promise<Answer>,
): Promise<Answer> {
  const key = `sign-in ${address} ${secret.slice(0, PREFIX_LENGTH)}`
  const headers = limiter.take(key)
  try {
    const answer = await signIn()
    limiter.give(key)
    return { ...answer, headers: { ...answer.headers, ...headers } }
  } catch (error) {
    if (error instanceof Problem && error.kind === unauthenticated) limiter.take(`sign-in ${address}`)
    else limiter.give(key)
    throw error
  }
}
