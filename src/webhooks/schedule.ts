const [SECOND, MINUTE, HOUR] = [1000, 60_000, 3_600_000]

/** How long after each failed attempt the next one comes: the schedule that Standard Webhooks proposes, three days in all. */
const WAITS_MS = [
  ...[5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR],
  ...[10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR],
]

export const ATTEMPTS_MAX = WAITS_MS.length + 1

/** A webhook to which nothing got through for so long is not tried any more. */
export const FAILING_MS = 72 * HOUR

const WAIT_MAX_MS = 24 * HOUR

/** Up to a tenth later, so that what failed together does not return together. Undefined: that was the last attempt. */
export function waitMs(attempts: number, asked: number | undefined, random: number): number | undefined {
  const wait = WAITS_MS[attempts - 1]
  if (wait === undefined) return undefined
  return Math.round(Math.max(wait * (1 + random / 10), Math.min(asked ?? 0, WAIT_MAX_MS)))
}

/** What a receiver asks for: seconds, or a date. Undefined: nothing that can be understood. */
export function retryAfterMs(header: string | null, now: number): number | undefined {
  if (header === null) return undefined
  if (/^\d{1,9}$/.test(header)) return Number(header) * SECOND
  const date = Date.parse(header)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}
