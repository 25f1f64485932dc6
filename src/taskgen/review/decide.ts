import type { Reading } from './reading.ts'
import { RUBRIC, type RubricReason } from './rubric.ts'

/** One pass of a verifier. `unusable`: it said nothing that counts. */
export type Pass =
  | { kind: 'read'; reading: Reading; rounds: number }
  | { kind: 'unusable'; why: 'refused' | 'invalid' | 'faulty'; detail: string }

export type Decision =
  | { kind: 'accepted' }
  | {
      kind: 'rejected'
      reason: RubricReason | 'verifier_disagree' | 'verifier_refused' | 'verifier_invalid_output'
      detail: string
    }

type Rejected = Extract<Decision, { kind: 'rejected' }>

export const PASSES_MAX = 3
const PASSES_MIN = 2
const DETAIL_MAX = 1000

/** What follows from the passes so far: two that found nothing accept it. Undefined: one more is needed. */
export function decisionOf(passes: readonly Pass[]): Decision | undefined {
  const readings = passes.flatMap((pass) => (pass.kind === 'read' ? [pass.reading] : []))
  const blocked = readings.flatMap(blockerIn)[0]
  if (blocked) return blocked
  const left = PASSES_MAX - passes.length
  if (readings.length < PASSES_MIN) return left > 0 ? undefined : unread(passes)
  const clean = readings.filter(({ items }) => items.every(({ answer }) => answer === 'yes')).length
  if (clean >= PASSES_MIN) return { kind: 'accepted' }
  return clean + left >= PASSES_MIN ? undefined : objection(readings)
}

/** What most of them found. Where each found something else, they have only that in common. */
function objection(readings: readonly Reading[]): Rejected {
  const found = RUBRIC.map(({ item }) =>
    readings.filter((reading) => isNo(reading, item)).map((reading) => rejection(reading, item)),
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

const isNo = ({ items }: Reading, item: number): boolean =>
  items.some((each) => each.item === item && each.answer === 'no')

const blockerIn = (reading: Reading): Rejected[] =>
  RUBRIC.filter(({ item, isBlocker }) => isBlocker && isNo(reading, item)).map(({ item }) => rejection(reading, item))

function rejection({ items }: Reading, item: number): Rejected {
  const { reason } = RUBRIC.find((each) => each.item === item) ?? RUBRIC[0]
  const { why = '', quotes = [] } = items.find((each) => each.item === item) ?? {}
  const shown = quotes.map(({ from, quote }) => `${from}: ${JSON.stringify(quote)}`).join('; ')
  return { kind: 'rejected', reason, detail: `Item ${item}: ${why} (${shown})`.slice(0, DETAIL_MAX).toWellFormed() }
}

/** It says nothing of the task, and nobody has checked it: so it is not taken, under a name of its own. */
function unread(passes: readonly Pass[]): Decision {
  const unusable = passes.flatMap((pass) => (pass.kind === 'unusable' ? [pass] : []))
  const isRefused = unusable.every(({ why }) => why === 'refused')
  const detail = unusable
    .map((pass) => pass.detail)
    .join(' ')
    .slice(0, DETAIL_MAX)
    .toWellFormed()
  return { kind: 'rejected', reason: isRefused ? 'verifier_refused' : 'verifier_invalid_output', detail }
}
