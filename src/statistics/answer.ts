import { smallestDifference } from './accuracy.ts'
import { type AnswerFacts, type AnswerSetting, type Candidate, type Decision, describeAnswer } from './answer-text.ts'
import type { ComparisonStatistics } from './comparison-statistics.ts'
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

export type AnswerInput = Pick<AnswerFacts, 'isCollecting' | 'finished' | 'total'> & {
  /** Planned size, for the visible difference before there are results. Tasks are null until they are known. */
  plan: { tasks: number | null; attempts: number }
  /** In the order of the statistics. */
  settings: readonly AnswerSetting[]
  statistics: ComparisonStatistics
}

const TASKS_MIN = 5

/**
 * Decides which setting to recommend: the cheapest one that is neither shown to be worse than another nor possibly worse by
 * more than the visible difference. docs/statistics.md explains the rule.
 */
export function buildAnswer(input: AnswerInput): Answer {
  const all = input.settings.map((setting, index) => toCandidate(setting, index, input.statistics))
  const candidates = all.filter(({ isReference, tasks }) => !isReference && tasks >= TASKS_MIN)
  const visible = computeVisibleDifference(candidates, input.plan)
  const facts: AnswerFacts = { ...input, all, candidates, visible }
  const decision = input.isCollecting ? undefined : decide(input.statistics, candidates, visible)
  const text = describeAnswer(facts, decision)
  const smallestVisibleDifference = visible === undefined ? null : Math.round(1000 * visible) / 10
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

function toCandidate(setting: AnswerSetting, index: number, { settings }: ComparisonStatistics): Candidate {
  const statistics = settings[index]
  if (!statistics) throw new Error(`Setting ${setting.id} has no statistics`)
  return { ...setting, ...statistics, index }
}

function computeVisibleDifference(candidates: readonly Candidate[], plan: AnswerInput['plan']): number | undefined {
  if (candidates.length < 2) return plan.tasks ? smallestDifference(plan.tasks, plan.attempts) / 100 : undefined
  const tasks = Math.min(...candidates.map((candidate) => candidate.tasks))
  const attempts = Math.min(...candidates.map((candidate) => candidate.trials / candidate.tasks))
  return smallestDifference(tasks, attempts) / 100
}

/** Undefined if there are not two candidates, or none of them solved anything. */
function decide(
  statistics: ComparisonStatistics,
  candidates: readonly Candidate[],
  visible: number | undefined,
): Decision | undefined {
  const byAccuracy = candidates.toSorted(compareAccuracy)
  const [leader] = byAccuracy
  if (!leader || visible === undefined || leader.mean === 0) return undefined
  const pairOf = (a: Candidate, b: Candidate) => findPair(statistics, a.index, b.index)
  const isSafe = (one: Candidate, other: Candidate): boolean =>
    isNotRelevantlyWorse(pairOf(one, other), visible, candidates.length)
  const others = (one: Candidate): Candidate[] => byAccuracy.filter(({ index }) => index !== one.index)

  const eligible = others(leader).filter((one) => others(one).every((other) => isSafe(one, other)))
  const chosen = eligible.reduce((best, each) => (isCheaper(each, best) ? each : best), leader)
  const alternatives = others(chosen).filter((other) => pairOf(other, chosen).verdict !== 'worse')
  const isConclusive = others(chosen).every((other) => {
    const pair = pairOf(chosen, other)
    return pair.verdict === 'better' || (isSafe(chosen, other) && isShownCheaper(pair))
  })
  const rival = chooseRival(chosen, leader, others(chosen), alternatives)
  return rival && { chosen, isConclusive, alternatives, rival, pair: pairOf(rival, chosen) }
}

/** Compares by accuracy, then by cost, then by id. */
const compareAccuracy = (a: Candidate, b: Candidate): number =>
  b.mean - a.mean || costOf(a) - costOf(b) || (a.id < b.id ? -1 : 1)

const costOf = ({ meanMicros }: Candidate): number => meanMicros ?? Number.MAX_VALUE

const isCheaper = (a: Candidate, b: Candidate): boolean => costOf(a) < costOf(b)

/** True if `a` costs less than `b`, outside of the 95 % interval of the difference. */
const isShownCheaper = ({ cost }: PairStatistics): boolean => cost !== undefined && cost.high < 0

const LEVEL = 0.05

/**
 * True if `a` was not shown to be worse than `b`, and is not worse by more than the visible difference at a confidence of
 * 95 %, corrected for the number of candidates (Bonferroni).
 */
function isNotRelevantlyWorse({ verdict, difference }: PairStatistics, visible: number, candidates: number): boolean {
  if (verdict === 'worse' || !difference) return false
  const { centre, error, degrees } = difference
  return centre - quantile((2 * LEVEL) / (candidates - 1), degrees) * error >= -visible
}

/** Chooses the setting that the text compares with: the most accurate one, else the cheapest one not shown to be worse. */
function chooseRival(
  chosen: Candidate,
  leader: Candidate,
  others: readonly Candidate[],
  alternatives: readonly Candidate[],
): Candidate | undefined {
  if (chosen !== leader) return leader
  const [first = others[0], ...rest] = alternatives
  return rest.reduce((best, each) => (best && isCheaper(each, best) ? each : best), first)
}

/** Returns the statistics of a pair in the given direction. */
export function findPair({ settings, pairs }: ComparisonStatistics, a: number, b: number): PairStatistics {
  const [low, high] = a < b ? [a, b] : [b, a]
  const pair = pairs[low * settings.length - (low * (low + 1)) / 2 + high - low - 1]
  if (!pair || pair.a !== low || pair.b !== high) throw new Error(`Pair ${a}, ${b} not found`)
  return a < b ? pair : flipPair(pair)
}
