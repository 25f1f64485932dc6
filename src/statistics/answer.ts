import type { ComparisonStatistics, SettingStatistics } from './comparison-statistics.ts'
import { computeSmallestDifference, TASKS_MIN } from './intervals.ts'
import { flipPair, type PairStatistics } from './pairs.ts'
import { quantile } from './student.ts'

/** The conclusion of a comparison. */
export type Answer = {
  state: 'collecting' | 'inconclusive' | 'conclusive'
  /** Id of a setting. */
  recommended: string | null
  /** Ids of the other settings that were not shown to be worse, the most accurate first. */
  alternatives: string[]
  text: string
  /** Smallest difference between two settings, in percentage points, that is detected with 80 % power. */
  smallestVisibleDifference: number | null
}

type AnswerInput = Pick<AnswerFacts, 'isCollecting' | 'finished' | 'total'> & {
  /** Planned size, for the visible difference before there are results. Tasks are null until they are known. */
  plan: { tasks: number | null; attempts: number }
  /** In the order of the statistics. */
  settings: readonly AnswerSetting[]
  statistics: ComparisonStatistics
}

/**
 * Decides which setting to recommend: the cheapest one that is neither shown to be worse than another nor possibly worse by
 * more than the visible difference. docs/statistics.md explains the rule.
 */
export function buildAnswer(input: AnswerInput): Answer {
  const all = input.settings.map((setting, index) => toCandidate(setting, index, input.statistics))
  const candidates = all.filter(({ isReference, tasks }) => !isReference && tasks >= TASKS_MIN)
  const visibleDifference = computeVisibleDifference(candidates, input.plan)
  const facts: AnswerFacts = { ...input, all, candidates, visibleDifference }
  const decision = input.isCollecting ? undefined : decide(input.statistics, candidates, visibleDifference)
  const text = describeAnswer(facts, decision)
  const smallestVisibleDifference = visibleDifference === undefined ? null : Math.round(1000 * visibleDifference) / 10
  if (!decision) {
    const state = input.isCollecting ? 'collecting' : 'inconclusive'
    return { state, recommended: null, alternatives: [], text, smallestVisibleDifference }
  }
  return {
    state: decision.isConclusive ? 'conclusive' : 'inconclusive',
    recommended: decision.chosen.id,
    alternatives: decision.alternatives.map(({ id }) => id),
    text,
    smallestVisibleDifference,
  }
}

function toCandidate(setting: AnswerSetting, index: number, { settings }: ComparisonStatistics): AnswerCandidate {
  const statistics = settings[index]
  if (!statistics) throw new Error(`Setting ${setting.id} has no statistics`)
  return { ...setting, ...statistics, index }
}

function computeVisibleDifference(
  candidates: readonly AnswerCandidate[],
  plan: AnswerInput['plan'],
): number | undefined {
  if (candidates.length < 2) return plan.tasks ? computeSmallestDifference(plan.tasks, plan.attempts) / 100 : undefined
  const tasks = Math.min(...candidates.map((candidate) => candidate.tasks))
  const attempts = Math.min(...candidates.map((candidate) => candidate.trials / candidate.tasks))
  return computeSmallestDifference(tasks, attempts) / 100
}

/** Chooses the recommended setting. Returns undefined if there are fewer than two candidates, or none solved anything. */
function decide(
  statistics: ComparisonStatistics,
  candidates: readonly AnswerCandidate[],
  visibleDifference: number | undefined,
): Decision | undefined {
  const byAccuracy = candidates.toSorted(compareAccuracy)
  const [leader] = byAccuracy
  if (!leader || visibleDifference === undefined || leader.mean === 0) return undefined
  const pairOf = (a: AnswerCandidate, b: AnswerCandidate) => requirePair(statistics, a.index, b.index)
  const isNonInferiorTo = (one: AnswerCandidate, other: AnswerCandidate): boolean =>
    isNonInferior(pairOf(one, other), visibleDifference, candidates.length)
  const others = (one: AnswerCandidate): AnswerCandidate[] => byAccuracy.filter(({ index }) => index !== one.index)

  const eligible = others(leader).filter((one) => others(one).every((other) => isNonInferiorTo(one, other)))
  const chosen = eligible.reduce((best, each) => (isCheaper(each, best) ? each : best), leader)
  const alternatives = others(chosen).filter((other) => pairOf(other, chosen).verdict !== 'worse')
  const isConclusive = others(chosen).every((other) => {
    const pair = pairOf(chosen, other)
    return pair.verdict === 'better' || (isNonInferiorTo(chosen, other) && isShownCheaper(pair))
  })
  const rival = chooseRival(chosen, leader, others(chosen), alternatives)
  return rival && { chosen, isConclusive, alternatives, rival, pair: pairOf(rival, chosen) }
}

/** Compares by accuracy, then by cost, then by id. */
const compareAccuracy = (a: AnswerCandidate, b: AnswerCandidate): number =>
  b.mean - a.mean || costOf(a) - costOf(b) || (a.id < b.id ? -1 : 1)

/** Returns the mean cost. An unknown cost counts as the highest. */
const costOf = ({ meanMicros }: AnswerCandidate): number => meanMicros ?? Number.MAX_VALUE

const isCheaper = (a: AnswerCandidate, b: AnswerCandidate): boolean => costOf(a) < costOf(b)

/** True if `a` costs less than `b`, outside of the 95 % interval of the difference. */
const isShownCheaper = ({ cost }: PairStatistics): boolean => cost !== undefined && cost.high < 0

const SIGNIFICANCE_LEVEL = 0.05

/**
 * Tests non-inferiority: `a` was not shown to be worse than `b`, and is not worse by more than the visible difference at a
 * confidence of 95 %, corrected for the number of candidates (Bonferroni).
 */
function isNonInferior(
  { verdict, difference }: PairStatistics,
  visibleDifference: number,
  candidates: number,
): boolean {
  if (verdict === 'worse' || !difference) return false
  const { centre, error, degrees } = difference
  // The test is one-sided, and `quantile` takes a two-sided probability.
  return centre - quantile((2 * SIGNIFICANCE_LEVEL) / (candidates - 1), degrees) * error >= -visibleDifference
}

/**
 * Chooses the setting that the text compares with: the most accurate one; if that is the chosen one, the cheapest
 * alternative; without alternatives, the most accurate of the others.
 */
function chooseRival(
  chosen: AnswerCandidate,
  leader: AnswerCandidate,
  others: readonly AnswerCandidate[],
  alternatives: readonly AnswerCandidate[],
): AnswerCandidate | undefined {
  if (chosen !== leader) return leader
  const [first, ...rest] = alternatives
  return first ? rest.reduce((best, each) => (isCheaper(each, best) ? each : best), first) : others[0]
}

/** Returns the statistics of a pair in the given direction. */
export function requirePair({ settings, pairs }: ComparisonStatistics, a: number, b: number): PairStatistics {
  const [low, high] = a < b ? [a, b] : [b, a]
  // Pairs are listed as (0, 1), (0, 2), …, (1, 2), …: this is the position of (low, high).
  const pair = pairs[low * settings.length - (low * (low + 1)) / 2 + high - low - 1]
  if (!pair || pair.a !== low || pair.b !== high) throw new Error(`Pair ${a}, ${b} not found`)
  return a < b ? pair : flipPair(pair)
}

/** `isReference`: only shows that the tasks work, and is never recommended. */
type AnswerSetting = { id: string; name: string; isReference: boolean }

/** A setting that can be recommended. */
type AnswerCandidate = AnswerSetting & SettingStatistics & { index: number }

/** A recommendation and its closest rival. */
type Decision = {
  chosen: AnswerCandidate
  isConclusive: boolean
  alternatives: AnswerCandidate[]
  rival: AnswerCandidate
  /** The rival as `a`, the chosen setting as `b`. */
  pair: PairStatistics
}

type AnswerFacts = {
  /** More results are expected. */
  isCollecting: boolean
  finished: number
  total: number
  all: readonly AnswerCandidate[]
  candidates: readonly AnswerCandidate[]
  /** Smallest visible difference, as a fraction of 1. */
  visibleDifference: number | undefined
}

/** Describes an answer in one or two plain sentences. */
function describeAnswer(facts: AnswerFacts, decision: Decision | undefined): string {
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

const describeResult = ({ passed, tasks, meanMicros }: AnswerCandidate): string =>
  `solved ${passed} of ${tasks} tasks${meanMicros ? ` for ${formatUsd(meanMicros)} each` : ''}`

function describeRival({ rival, chosen, pair }: Decision): string {
  const { difference, verdict } = pair
  if (!difference) return `${rival.name} ${describeResult(rival)}, on too few of the same tasks to compare`
  const interval = `95 % CI ${formatPoints(difference.low)} to ${formatPoints(difference.high)}`
  const points = `${formatPoints(difference.mean)} ${Math.abs(Math.round(100 * difference.mean)) === 1 ? 'point' : 'points'}`
  const lead = pair.isSingle ? `${describeCount(pair)} (${points}, ${interval})` : `differs by ${points} (${interval})`
  const cost = describeCost(rival.meanMicros, chosen.meanMicros)
  return `${rival.name} ${lead}, which is ${VERDICT_TEXTS[verdict]}${cost === '' ? '' : `, ${cost}`}`
}

const VERDICT_TEXTS = {
  better: 'measurably better',
  worse: 'measurably worse',
  cannot_tell: 'not a measurable difference',
} as const

function describeCount({ wonByA, wonByB }: PairStatistics): string {
  const lead = wonByA - wonByB
  if (lead === 0) return 'solved as many'
  const count = Math.abs(lead) === 1 ? 'one' : String(Math.abs(lead))
  return `solved ${count} ${lead > 0 ? 'more' : 'fewer'}`
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
function describePower({ visibleDifference }: AnswerFacts, { isConclusive, pair, chosen }: Decision): string {
  if (isConclusive || visibleDifference === undefined || pair.verdict !== 'cannot_tell') return ''
  return `; ${chosen.tasks} tasks show differences above ${Math.round(100 * visibleDifference)} points`
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
