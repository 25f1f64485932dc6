const [SECOND, MINUTE, HOUR] = [1000, 60_000, 3_600_000]

/** Delays after each failed attempt, as proposed by Standard Webhooks; about three days in total. */
const WAITS_MS = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR]

export const ATTEMPTS_MAX = WAITS_MS.length + 1

/** A webhook is disabled after failing for this long. */
export const FAILING_MS = 72 * HOUR

const WAIT_MAX_MS = 24 * HOUR

/** Computes the delay before the next attempt, with up to 10 % jitter. Undefined after the last attempt. */
export function computeWaitMs(attempts: number, retryAfter: number | undefined, random: number): number | undefined {
  const wait = WAITS_MS[attempts - 1]
  if (wait === undefined) return undefined
  return Math.round(Math.max(wait * (1 + random / 10), Math.min(retryAfter ?? 0, WAIT_MAX_MS)))
}

/** Parses a Retry-After header: seconds or a date. Undefined if it is invalid. */
export function parseRetryAfterMs(header: string | null, now: number): number | undefined {
  if (header === null) return undefined
  if (/^\d{1,9}$/.test(header)) return Number(header) * SECOND
  const date = Date.parse(header)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}
