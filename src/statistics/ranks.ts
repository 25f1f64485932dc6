import { selectSignificant } from './holm.ts'
import { type Scores, testDifference, toTracks } from './paired.ts'

export type Rank = { best: number; worst: number }

/**
 * Computes the range of ranks of each setting. All pairs are tested; Holm's method keeps the probability of even one false
 * claim at 5 %.
 */
export const computeRanks = (all: readonly Scores[]): Rank[] => countRanks(all.length, findClaims(all))

/** A setting that was shown to be better than another. Both are positions in the list of settings. */
export type RankClaim = { winner: number; loser: number }

/** Computes the range of ranks from the pairs that could be told apart. */
export function countRanks(settings: number, claims: readonly RankClaim[]): Rank[] {
  const better = new Uint32Array(settings)
  const worse = new Uint32Array(settings)
  for (const { winner, loser } of claims) {
    better[loser] = (better[loser] ?? 0) + 1
    worse[winner] = (worse[winner] ?? 0) + 1
  }
  return Array.from(better, (count, index) => ({ best: 1 + count, worst: settings - (worse[index] ?? 0) }))
}

function findClaims(all: readonly Scores[]): RankClaim[] {
  const tracks = toTracks(all)
  const tested = tracks.flatMap((a, first) =>
    tracks.slice(first + 1).flatMap((b, offset) => {
      const difference = testDifference(a, b)
      if (!difference) return []
      const second = first + 1 + offset
      const [winner, loser] = difference.isBetter ? [first, second] : [second, first]
      return [{ winner, loser, probability: difference.probability }]
    }),
  )
  const significant = selectSignificant(tested.map(({ probability }) => probability))
  return tested.filter((_, index) => significant[index])
}
