import type { ModelReview } from './model-review.ts'
import { RUBRIC, type RubricReason } from './rubric.ts'

/** A single review. `unusable`: refused, invalid or faulty. */
export type ReviewPass =
  | { kind: 'read'; reading: ModelReview; rounds: number }
  | { kind: 'unusable'; why: 'refused' | 'invalid' | 'faulty'; detail: string }

export type ReviewDecision =
  | { kind: 'accepted' }
  | {
      kind: 'rejected'
      reason: RubricReason | 'verifier_disagree' | 'verifier_refused' | 'verifier_invalid_output'
      detail: string
    }

type RejectedDecision = Extract<ReviewDecision, { kind: 'rejected' }>

export const PASSES_MAX = 3
const PASSES_MIN = 2
const DETAIL_MAX = 1000

/** Decides after each review: two without objections accept the task. Undefined: another review is needed. */
export function decideReview(passes: readonly ReviewPass[]): ReviewDecision | undefined {
  const readings = passes.flatMap((pass) => (pass.kind === 'read' ? [pass.reading] : []))
  const blocked = readings.flatMap(listBlockers)[0]
  if (blocked) return blocked
  const left = PASSES_MAX - passes.length
  if (readings.length < PASSES_MIN) return left > 0 ? undefined : rejectUnread(passes)
  const clean = readings.filter(({ items }) => items.every(({ answer }) => answer === 'yes')).length
  if (clean >= PASSES_MIN) return { kind: 'accepted' }
  return clean + left >= PASSES_MIN ? undefined : toObjection(readings)
}

/** Returns the majority objection, or `verifier_disagree`. */
function toObjection(readings: readonly ModelReview[]): RejectedDecision {
  const found = RUBRIC.map(({ item }) =>
    readings.filter((reading) => isNo(reading, item)).map((reading) => toRejection(reading, item)),
  )
  const most = found.reduce((one, other) => (other.length > one.length ? other : one), [])
  const [first] = most
  if (first && most.length * 2 > readings.length) return first
  const detail = found
    .flat()
    .map((each) => each.detail)
    .join(' ')
  return { kind: 'rejected', reason: 'verifier_disagree', detail: detail.slice(0, DETAIL_MAX).toWellFormed() }
}

const isNo = ({ items }: ModelReview, item: number): boolean =>
  items.some((each) => each.item === item && each.answer === 'no')

const listBlockers = (reading: ModelReview): RejectedDecision[] =>
  RUBRIC.filter(({ item, isBlocker }) => isBlocker && isNo(reading, item)).map(({ item }) => toRejection(reading, item))

function toRejection({ items }: ModelReview, item: number): RejectedDecision {
  const { reason } = RUBRIC.find((each) => each.item === item) ?? RUBRIC[0]
  const { why = '', quotes = [] } = items.find((each) => each.item === item) ?? {}
  const shown = quotes.map(({ from, quote }) => `${from}: ${JSON.stringify(quote)}`).join('; ')
  return { kind: 'rejected', reason, detail: `Item ${item}: ${why} (${shown})`.slice(0, DETAIL_MAX).toWellFormed() }
}

/** Rejects under a reason of its own, because no usable review exists. */
function rejectUnread(passes: readonly ReviewPass[]): ReviewDecision {
  const unusable = passes.flatMap((pass) => (pass.kind === 'unusable' ? [pass] : []))
  const isRefused = unusable.every(({ why }) => why === 'refused')
  const detail = unusable
    .map((pass) => pass.detail)
    .join(' ')
    .slice(0, DETAIL_MAX)
    .toWellFormed()
  return { kind: 'rejected', reason: isRefused ? 'verifier_refused' : 'verifier_invalid_output', detail }
}
