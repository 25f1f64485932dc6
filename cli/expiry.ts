import { WrongUse } from './failure.ts'

const HOUR_MS = 3_600_000
const UNITS_MS: Record<string, number> = { h: HOUR_MS, d: 24 * HOUR_MS, w: 7 * 24 * HOUR_MS }
const ISO = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

/** Parses `12h`, `30d`, `8w` from now, or an ISO 8601 date or time. A date starts at midnight UTC. */
export function parseExpiry(text: string, now: Date): string {
  const [, amount, unit = ''] = /^(\d{1,5})([hdw])$/.exec(text) ?? []
  const at = amount ? now.getTime() + Number(amount) * (UNITS_MS[unit] ?? 0) : parseInstant(text)
  if (Number.isNaN(at))
    throw new WrongUse('--expires must be a duration such as 12h, 30d, 8w, or a date such as 2030-12-31.')
  return new Date(at).toISOString()
}

const parseInstant = (text: string): number => (ISO.test(text) && dayExists(text) ? Date.parse(text) : Number.NaN)

/** JavaScript accepts February 31 as a day in March. */
const dayExists = (text: string): boolean => {
  const day = text.slice(0, 10)
  return !Number.isNaN(Date.parse(day)) && new Date(day).toISOString().startsWith(day)
}
