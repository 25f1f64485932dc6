const FIRST_MS = 1_000
const LONGEST_MS = 300_000

/** Returns 1 s, 2 s, 4 s … 5 min, ±25 %, so that jobs that failed together do not retry together. */
export function backoffMs(failures: number, random: number): number {
  const base = Math.min(FIRST_MS * 2 ** (failures - 1), LONGEST_MS)
  return Math.round(base * (0.75 + random / 2))
}
