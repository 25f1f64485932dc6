import { parseRetryAfterMs } from '../platform/retry-delay.ts'

type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>

/** Retry policy of one call. */
export type RetryOptions = {
  /** Maximum number of tries, including the first. */
  triesMax: number
  /** Maximum time from the first try to the start of the last. */
  totalMs: number
  /** Pause before the second try. Each further pause is twice as long. */
  firstMs: number
  /** Maximum pause. If the provider requests a longer one, the call is not retried. */
  pauseMaxMs: number
  /**
   * After a 429, the last try starts at least this long after the first, so that the rate-limit window has passed. Also
   * the time for which all probes must fail before an outage is proven.
   */
  quietMs: number
}

const RETRIED_STATUSES = [429, 500, 502, 503, 504, 529]
const RATE_LIMITED = 429

export const isRetryable = (status: number): boolean => RETRIED_STATUSES.includes(status)

type FailedTry = {
  status: number | null
  tries: number
  elapsedMs: number
  headers: ResponseHeaders
  now: number
  random: number
}

/** Returns the pause before the next try, or undefined if the call must not be retried. */
export function computeRetryPauseMs(options: RetryOptions, failed: FailedTry): number | undefined {
  if (failed.tries >= options.triesMax) return undefined
  const pauseMs = findRequestedPauseMs(failed.headers, failed.now) ?? computeBackoffPauseMs(options, failed)
  if (pauseMs > options.pauseMaxMs || failed.elapsedMs + pauseMs > options.totalMs) return undefined
  const waitsForWindow = failed.status === RATE_LIMITED && failed.tries === options.triesMax - 1
  return waitsForWindow ? Math.max(pauseMs, options.quietMs - failed.elapsedMs) : pauseMs
}

/**
 * Returns the pause of an exponential backoff. Half of it is random, so that calls that failed together do not retry
 * together.
 */
const computeBackoffPauseMs = ({ firstMs, pauseMaxMs }: RetryOptions, { tries, random }: FailedTry): number =>
  Math.min(firstMs * 2 ** (tries - 1), pauseMaxMs) * (0.5 + random / 2)

/** Returns the pause that the provider asks for with `Retry-After` or, as some do, with `Retry-After-Ms`. */
function findRequestedPauseMs(headers: ResponseHeaders, now: number): number | undefined {
  const milliseconds = Number(headers['retry-after-ms'] ?? Number.NaN)
  if (milliseconds >= 0) return milliseconds
  const retryAfter = headers['retry-after']
  return typeof retryAfter === 'string' ? parseRetryAfterMs(retryAfter, now) : undefined
}
