import { type Scores, surprise, tracksOf } from './paired.ts'

export type Rank = { best: number; worst: number }

const LEVEL = 0.05

/**
 * Between which places each setting may stand. All pairs are tested, and Holm's rule keeps the chance of even one false
 * claim among them at 5 %.
 */
export function ranks(all: readonly Scores[]): Rank[] {
  const better = all.map(() => 0)
  const worse = all.map(() => 0)
  for (const { winner, loser } of claims(all)) {
    better[loser] = (better[loser] ?? 0) + 1
    worse[winner] = (worse[winner] ?? 0) + 1
  }
  return all.map((_, place) => ({ best: 1 + (better[place] ?? 0), worst: all.length - (worse[place] ?? 0) }))
}

type Claim = { winner: number; loser: number; probability: number }

function claims(all: readonly Scores[]): Claim[] {
  const tracks = tracksOf(all)
  const tested = tracks.flatMap((a, first) =>
    tracks.slice(first + 1).flatMap((b, offset): Claim[] => {
      const found = surprise(a, b)
      if (!found) return []
      const [one, other] = [first, first + 1 + offset]
      const { probability, isBetter } = found
      return [{ winner: isBetter ? one : other, loser: isBetter ? other : one, probability }]
    }),
  )
  const sorted = tested.sort((a, b) => a.probability - b.probability)
  const held = sorted.findIndex(({ probability }, place) => probability > LEVEL / (sorted.length - place))
  return held < 0 ? sorted : sorted.slice(0, held)
}
