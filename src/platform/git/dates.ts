/** The end of the year 9999: what comes later is no date to whoever reads one. */
const SECONDS_END = 253_402_300_800

/** Seconds since 1970, as a stranger wrote them into a commit. What is no date counts as the first of all, as in git. */
export function secondsOf(text: string | undefined): number {
  const seconds = Number(text)
  return seconds > 0 && seconds < SECONDS_END ? Math.floor(seconds) : 0
}
