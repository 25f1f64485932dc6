import type { Difficulty } from '../schema.ts'

/** Difficulty estimates by source, and the resulting one. */
export type DifficultyEstimate = {
  /** Estimate from the size of the change. */
  prior: Difficulty
  /** Estimate from the minutes of work that the reviews expect. Null without reviews. */
  judged: Difficulty | null
  final: Difficulty
  confidence: 'low' | 'medium' | 'high'
}

/** Combines the estimates of the reviews, in minutes of work. The estimate from the size of the change, `prior`, breaks ties. */
export function estimateDifficulty(prior: Difficulty, minutes: readonly number[]): DifficultyEstimate {
  const judged = medianDifficulty(minutes, prior)
  const isUnanimous = new Set(minutes.map(toDifficulty)).size === 1
  return { prior, judged, final: judged ?? prior, confidence: computeConfidence(prior, judged, isUnanimous) }
}

const EASY_BELOW_MINUTES = 15
const HARD_ABOVE_MINUTES = 60

function toDifficulty(minutes: number): Difficulty {
  if (minutes < EASY_BELOW_MINUTES) return 'easy'
  return minutes > HARD_ABOVE_MINUTES ? 'hard' : 'medium'
}

function medianDifficulty(minutes: readonly number[], prior: Difficulty): Difficulty | null {
  const sorted = [...minutes].sort((one, other) => one - other)
  const [low, high] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.floor(sorted.length / 2)]]
  if (low === undefined || high === undefined) return null
  const [one, other] = [toDifficulty(low), toDifficulty(high)]
  if (one === other) return one
  // If the two middle values differ, the prior decides, provided that it is one of them.
  return prior === one || prior === other ? prior : toDifficulty((low + high) / 2)
}

function computeConfidence(
  prior: Difficulty,
  judged: Difficulty | null,
  isUnanimous: boolean,
): DifficultyEstimate['confidence'] {
  if (judged === null) return 'low'
  const matchesPrior = judged === prior
  if (isUnanimous && matchesPrior) return 'high'
  return isUnanimous || matchesPrior ? 'medium' : 'low'
}
