import type { Headers } from './headers.ts'

export type RetryOptions = {
  /** Of one call, the first among them. */
  triesMax: number
  /** From the first try to the beginning of the last. */
  totalMs: number
  /** Before the second try; it doubles with each. */
  firstMs: number
  /** Whoever asks for a longer pause is not asked again. */
  pauseMaxMs: number
  /** The last try of who is refused for asking too often comes after so long: what it asked before is forgiven by then. */
  quietMs: number
}

const ABSORBED = [429, 500, 502, 503, 504, 529]

export const isAbsorbed = (status: number): boolean => ABSORBED.includes(status)

const TOO_OFTEN = 429

type Failed = { status: number | null; tries: number; elapsedMs: number; headers: Headers; now: number; random: number }

/** How long to wait before the next try. Undefined: there is none. */
export function retryPause(options: RetryOptions, failed: Failed): number | undefined {
  if (failed.tries >= options.triesMax) return undefined
  const pause = askedPause(failed.headers, failed.now) ?? ownPause(options, failed)
  if (pause > options.pauseMaxMs || failed.elapsedMs + pause > options.totalMs) return undefined
  const isLast = failed.status === TOO_OFTEN && failed.tries === options.triesMax - 1
  return isLast ? Math.max(pause, options.quietMs - failed.elapsedMs) : pause
}

/** Half of it is chance: those who failed together do not come back together. */
const ownPause = ({ firstMs, pauseMaxMs }: RetryOptions, { tries, random }: Failed): number =>
  Math.min(firstMs * 2 ** (tries - 1), pauseMaxMs) * (0.5 + random / 2)

/** `Retry-After` is a number of seconds or a date. Some providers say it finer. */
function askedPause(headers: Headers, now: number): number | undefined {
  const fine = Number(headers['retry-after-ms'] ?? Number.NaN)
  if (fine >= 0) return fine
  const asked = headers['retry-after']
  if (typeof asked !== 'string' || asked === '') return undefined
  const seconds = Number(asked)
  if (seconds >= 0) return seconds * 1000
  const date = Date.parse(asked)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}
