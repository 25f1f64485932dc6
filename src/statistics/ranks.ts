import { type Scores, testDifference, toTracks } from './paired.ts'

export type Rank = { best: number; worst: number }

const LEVEL = 0.05

/**
 * Computes the range of ranks of each setting. All pairs are tested; Holm's method keeps the probability of even one false
 * claim at 5 %.
 */
export function computeRanks(all: readonly Scores[]): Rank[] {
  const better = all.map(() => 0)
  const worse = all.map(() => 0)
  for (const { winner, loser } of findClaims(all)) {
    better[loser] = (better[loser] ?? 0) + 1
    worse[winner] = (worse[winner] ?? 0) + 1
  }
  return all.map((_, index) => ({ best: 1 + (better[index] ?? 0), worst: all.length - (worse[index] ?? 0) }))
}

type RankClaim = { winner: number; loser: number; probability: number }

function findClaims(all: readonly Scores[]): RankClaim[] {
  const tracks = toTracks(all)
  const tested = tracks.flatMap((a, first) =>
    tracks.slice(first + 1).flatMap((b, offset): RankClaim[] => {
      const tested = testDifference(a, b)
      if (!tested) return []
      const [one, other] = [first, first + 1 + offset]
      const { probability, isBetter } = tested
      return [{ winner: isBetter ? one : other, loser: isBetter ? other : one, probability }]
    }),
  )
  const sorted = tested.sort((a, b) => a.probability - b.probability)
  const firstRejected = sorted.findIndex(({ probability }, index) => probability > LEVEL / (sorted.length - index))
  return firstRejected < 0 ? sorted : sorted.slice(0, firstRejected)
}
