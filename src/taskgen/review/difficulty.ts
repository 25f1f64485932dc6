import type { Difficulty } from '../schema.ts'

/** All that is known of how hard a task is, each by itself, and what follows. */
export type Grade = {
  /** By the size of the change, before anything ran. */
  prior: Difficulty
  /** By the minutes that its readers expect. */
  judged: Difficulty | null
  /** By trials. */
  measured: Difficulty | null
  final: Difficulty
  confidence: 'low' | 'medium' | 'high'
}

/** What was measured counts before what was judged; the size of the change decides between readers who differ. */
export function graded(known: { prior: Difficulty; minutes: readonly number[]; measured: Difficulty | null }): Grade {
  const { prior, minutes, measured } = known
  const judged = judgedOf(minutes, prior)
  const isOneVoice = new Set(minutes.map(bucketOf)).size === 1
  return {
    prior,
    judged,
    measured,
    final: measured ?? judged ?? prior,
    confidence: confidenceOf(known, judged, isOneVoice),
  }
}

const EASY_BELOW = 15
const HARD_ABOVE = 60

function bucketOf(minutes: number): Difficulty {
  if (minutes < EASY_BELOW) return 'easy'
  return minutes > HARD_ABOVE ? 'hard' : 'medium'
}

function judgedOf(minutes: readonly number[], prior: Difficulty): Difficulty | null {
  const sorted = [...minutes].sort((one, other) => one - other)
  const [low, high] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.floor(sorted.length / 2)]]
  if (low === undefined || high === undefined) return null
  const [one, other] = [bucketOf(low), bucketOf(high)]
  if (one === other) return one
  // Two in the middle that differ: the prior, if it is one of them.
  return prior === one || prior === other ? prior : bucketOf((low + high) / 2)
}

function confidenceOf(
  { prior, measured }: { prior: Difficulty; measured: Difficulty | null },
  judged: Difficulty | null,
  isOneVoice: boolean,
): Grade['confidence'] {
  if (measured !== null) return 'high'
  if (judged === null) return 'low'
  const agreements = Number(isOneVoice) + Number(judged === prior)
  return (['low', 'medium', 'high'] as const)[agreements] ?? 'low'
}
