const FIRST_MS = 1_000
const LONGEST_MS = 300_000

/** 1 s, 2 s, 4 s … 5 min, each up to a quarter shorter or longer, so that what failed together does not return together. */
export function backoffMs(failures: number, random: number): number {
  const base = Math.min(FIRST_MS * 2 ** (failures - 1), LONGEST_MS)
  return Math.round(base * (0.75 + random / 2))
}
