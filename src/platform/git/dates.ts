/** End of the year 9999, in Unix seconds. Most date formats cannot represent later dates. */
const SECONDS_END = 253_402_300_800

/** Parses the untrusted Unix timestamp of a commit. Invalid timestamps become 0, as in git. */
export function parseSeconds(text: string | undefined): number {
  const seconds = Number(text)
  return seconds > 0 && seconds < SECONDS_END ? Math.floor(seconds) : 0
}
