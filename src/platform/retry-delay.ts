const FIRST_MS = 1_000
const LONGEST_MS = 300_000

/**
 * Returns the delay before the next attempt: 1 s after the first failure, doubled after each further one up to 5 min.
 * `random`, between 0 and 1, changes it by ±25 %, so that callers that failed together do not retry together.
 */
export function backoffMs(failures: number, random: number): number {
  const base = Math.min(FIRST_MS * 2 ** (failures - 1), LONGEST_MS)
  return Math.round(base * (0.75 + random / 2))
}

/** Parses a Retry-After header: seconds or a date. Undefined if it is missing or invalid. */
export function parseRetryAfterMs(header: string | null, now: number): number | undefined {
  if (header === null) return undefined
  if (/^\d{1,9}(\.\d+)?$/.test(header)) return Number(header) * 1000
  const date = Date.parse(header)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}
