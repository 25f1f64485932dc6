/** End of the year 9999. Later dates are not valid in most formats. */
const SECONDS_END = 253_402_300_800

/** Parses untrusted seconds since 1970 of a commit. Invalid dates become 0, as in git. */
export function parseSeconds(text: string | undefined): number {
  const seconds = Number(text)
  return seconds > 0 && seconds < SECONDS_END ? Math.floor(seconds) : 0
}
