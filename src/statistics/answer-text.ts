import type { SettingStatistics } from './comparison-statistics.ts'
import type { PairStatistics } from './pairs.ts'

/** `isReference`: only shows that the tasks work, and is never recommended. */
export type AnswerSetting = { id: string; name: string; isReference: boolean }

/** A setting that can be recommended. */
export type Candidate = AnswerSetting & SettingStatistics & { index: number }

/** A recommendation and its closest rival. */
export type Decision = {
  chosen: Candidate
  isConclusive: boolean
  alternatives: Candidate[]
  rival: Candidate
  /** The rival as `a`, the chosen setting as `b`. */
  pair: PairStatistics
}

export type AnswerFacts = {
  /** More results are expected. */
  isCollecting: boolean
  finished: number
  total: number
  all: readonly Candidate[]
  candidates: readonly Candidate[]
  visible: number | undefined
}

/** Describes an answer in one or two plain sentences. */
export function describeAnswer(facts: AnswerFacts, decision: Decision | undefined): string {
  if (facts.isCollecting) return `Collecting results: ${facts.finished} of ${facts.total} trials have finished.`
  if (!decision) return describeUndecided(facts)
  const { chosen, isConclusive } = decision
  const use = isConclusive ? 'Use' : 'Tentatively use'
  return `${use} ${chosen.name}: it ${describeResult(chosen)}. ${describeRival(decision)}${describePower(facts, decision)}.`
}

const LISTED_MAX = 3

function describeUndecided({ all, candidates }: AnswerFacts): string {
  const scored = all.filter(({ tasks }) => tasks > 0)
  if (scored.length === 0) return 'No trial was scored, so there is nothing to compare.'
  const listed = scored.slice(0, LISTED_MAX).map((setting) => `${setting.name} ${describeResult(setting)}`)
  const results = `${listed.join('; ')}${scored.length > LISTED_MAX ? '; …' : ''}.`
  if (scored.every(({ isReference }) => isReference))
    return `Only reference settings were compared, so there is nothing to recommend: ${results}`
  if (candidates.length === 0) return `Fewer than five tasks were scored, which is too few to compare: ${results}`
  const [only] = candidates
  if (only && candidates.length === 1)
    return `${only.name} ${describeResult(only)}. No other setting has enough results to compare it with.`
  return 'No setting solved any of the tasks, so there is nothing to recommend.'
}

const describeResult = ({ passed, tasks, meanMicros }: Candidate): string =>
  `solved ${passed} of ${tasks} tasks${meanMicros ? ` for ${formatUsd(meanMicros)} each` : ''}`

function describeRival({ rival, chosen, pair }: Decision): string {
  const { difference, verdict } = pair
  if (!difference) return `${rival.name} ${describeResult(rival)}, on too few of the same tasks to compare`
  const interval = `95 % CI ${formatPoints(difference.low)} to ${formatPoints(difference.high)}`
  const points = `${formatPoints(difference.mean)} ${Math.abs(Math.round(100 * difference.mean)) === 1 ? 'point' : 'points'}`
  const lead = pair.isSingle ? `${describeCount(pair)} (${points}, ${interval})` : `differs by ${points} (${interval})`
  const cost = describeCost(rival.meanMicros, chosen.meanMicros)
  return `${rival.name} ${lead}, which is ${JUDGEMENTS[verdict]}${cost === '' ? '' : `, ${cost}`}`
}

const JUDGEMENTS = {
  better: 'measurably better',
  worse: 'measurably worse',
  cannot_tell: 'not a measurable difference',
} as const

function describeCount({ wonByA, wonByB }: PairStatistics): string {
  const more = wonByA - wonByB
  if (more === 0) return 'solved as many'
  const count = Math.abs(more) === 1 ? 'one' : String(Math.abs(more))
  return `solved ${count} ${more > 0 ? 'more' : 'fewer'}`
}

/** Describes a cost relative to another one. Empty if one is unknown or both are zero. */
function describeCost(micros: number | undefined, base: number | undefined): string {
  if (micros === undefined || base === undefined || (micros === 0 && base === 0)) return ''
  if (base === 0) return `at ${formatUsd(micros)} each`
  const ratio = micros / base
  if (Math.abs(ratio - 1) < 0.05) return 'at the same cost'
  if (Math.abs(ratio - 2) < 0.1) return 'at twice the cost'
  if (Math.abs(ratio - 0.5) < 0.025) return 'at half the cost'
  return ratio > 1 ? `at ${ratio.toFixed(1)} times the cost` : `at ${Math.round(100 * ratio)} % of the cost`
}

/** States the smallest visible difference where it limits the answer. */
function describePower({ visible }: AnswerFacts, { isConclusive, pair, chosen }: Decision): string {
  if (isConclusive || visible === undefined || pair.verdict !== 'cannot_tell') return ''
  return `; ${chosen.tasks} tasks show differences above ${Math.round(100 * visible)} points`
}

function formatUsd(micros: number): string {
  const usd = micros / 1_000_000
  if (usd >= 0.1) return `$${usd.toFixed(2)}`
  return `$${usd.toFixed(usd >= 0.001 ? 4 : 6)}`
}

/** Formats a fraction of 1 as signed percentage points, with a minus sign instead of a hyphen. */
function formatPoints(fraction: number): string {
  const points = Math.round(100 * fraction)
  if (points === 0) return '0'
  return points > 0 ? `+${points}` : `−${-points}`
}
