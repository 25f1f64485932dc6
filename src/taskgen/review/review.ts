import { askTyped, type TypedAnswer, toAnswerShape } from '../models/ask-typed.ts'
import { isSameFamily, type ModelBill, type NamedModel, type StageModel } from '../models/stage-model.ts'
import { applyRules } from '../rule-threads.ts'
import type { Difficulty } from '../schema.ts'
import { done, reject, type StageDeferral, type StageRejection, type StageResult } from '../stage-result.ts'
import {
  buildMaterial,
  buildNeutralSystemPrompt,
  buildReviewPrompt,
  buildReviewSystemPrompt,
  listReviewFaults,
  listUncovered,
  ModelReview,
  type ReviewInput,
  type ReviewMaterial,
  RUBRIC,
  type RubricReason,
} from './model-review.ts'
import type { TestAssertion } from './test-assertions.ts'

/** Result of all reviews. Stored with the candidate, whatever the decision is. */
export type ReviewVerdict = {
  decision: ReviewDecision
  passes: ReviewPass[]
  /** Assertions of the fail-to-pass tests, each of which every review must support. */
  assertions: TestAssertion[]
  /** Estimate of each reviewer. */
  minutes: number[]
  /** `self_verified`: author and verifier are models of the same vendor or family. */
  flags: 'self_verified'[]
  model: { catalogId: string; provider: string; name: string }
  bill: ModelBill
}

const REVIEW_SHAPE = toAnswerShape('reading', ModelReview)
const REPAIRS_MAX = 2

/**
 * Reviews a task in two independent passes, and in a third one if they disagree. The evidence of a rejection is the
 * verdict.
 */
export async function reviewTask(
  model: StageModel,
  input: ReviewInput & { author: NamedModel | null; workspaceId?: string },
  signal: AbortSignal,
): Promise<StageResult<ReviewVerdict>> {
  const material = buildMaterial(input)
  const { hidden, failToPass, workspaceId } = input
  const listed = await applyRules('listAssertions', { hidden, failToPass }, workspaceId)
  if (listed.kind !== 'done') return listed
  const assertions = listed.value
  const passes: ReviewPass[] = []
  let decision: ReviewDecision | undefined
  while (!decision && passes.length < PASSES_MAX) {
    const request = { passIndex: passes.length, material, assertions, signal }
    const pass = toReviewPass(await askForReview(model, input, request), assertions)
    if (pass.kind === 'deferred' || pass.kind === 'rejected') return pass
    passes.push(pass)
    decision = decideReview(passes)
  }
  if (!decision) throw new Error('The reviews led to no decision.')
  const verdict: ReviewVerdict = {
    decision,
    passes,
    assertions,
    minutes: passes.flatMap((pass) => (pass.kind === 'read' ? [pass.reading.minutes] : [])),
    flags: input.author && isSameFamily(input.author, model) ? ['self_verified'] : [],
    model: { catalogId: model.catalogId, provider: model.provider, name: model.name },
    bill: await model.bill(),
  }
  return decision.kind === 'accepted' ? done(verdict) : reject(decision.reason, decision.detail, verdict)
}

type ReviewRequest = {
  passIndex: number
  material: ReviewMaterial
  assertions: readonly TestAssertion[]
  signal: AbortSignal
}

/** Asks for one review. If it leaves out assertions, the model is asked once more, with a list of them. */
function askForReview(
  model: StageModel,
  input: ReviewInput,
  request: ReviewRequest,
): Promise<TypedAnswer<ModelReview>> {
  const { passIndex, material, assertions, signal } = request
  let isCoverageRepaired = false
  return askTyped(
    model,
    {
      system: buildReviewSystemPrompt(passIndex),
      neutral: buildNeutralSystemPrompt(passIndex),
      shape: REVIEW_SHAPE,
      schema: ModelReview,
      prompt: buildReviewPrompt(input, request, passIndex),
      faults(review) {
        const faults = listReviewFaults(review, material)
        const missing = isCoverageRepaired ? [] : listUncovered(review, assertions)
        isCoverageRepaired ||= missing.length > 0
        return [...faults, ...missing.slice(0, MISSING_SHOWN_MAX).map(describeMissing)]
      },
      repairsMax: REPAIRS_MAX,
    },
    signal,
  )
}

const MISSING_SHOWN_MAX = 25

const describeMissing = ({ number, test, text }: TestAssertion): string =>
  `"assertions" has no entry with the number ${number}: ${text || 'the whole test'} (${test}).`

function toReviewPass(
  answer: TypedAnswer<ModelReview>,
  assertions: readonly TestAssertion[],
): ReviewPass | StageDeferral | StageRejection {
  switch (answer.kind) {
    case 'value': {
      const uncovered = listUncovered(answer.value, assertions)
      return { kind: 'read', reading: answer.value, rounds: answer.rounds, uncovered }
    }
    case 'deferred':
      return answer
    case 'spent':
      return reject('verifier_budget', answer.detail)
    case 'refused':
    case 'invalid':
    case 'faulty':
      return { kind: 'unusable', why: answer.kind, detail: answer.detail }
  }
}

/** A stored review, whose answer is in `reading`. `unusable`: refused, invalid or faulty. */
type ReviewPass =
  | { kind: 'read'; reading: ModelReview; rounds: number; uncovered: readonly TestAssertion[] }
  | { kind: 'unusable'; why: 'refused' | 'invalid' | 'faulty'; detail: string }

type ReviewDecision =
  | { kind: 'accepted' }
  | {
      kind: 'rejected'
      reason:
        | RubricReason
        | 'uncovered_assertions'
        | 'verifier_disagree'
        | 'verifier_refused'
        | 'verifier_invalid_output'
      detail: string
    }

type RejectedDecision = Extract<ReviewDecision, { kind: 'rejected' }>

const PASSES_MAX = 3
const PASSES_MIN = 2
const DETAIL_LENGTH_MAX = 1000

/** Decides after each review: two without objections accept the task. Returns undefined if another review is needed. */
function decideReview(passes: readonly ReviewPass[]): ReviewDecision | undefined {
  const reviews = passes.flatMap((pass) => (pass.kind === 'read' ? [pass.reading] : []))
  const [blocker] = reviews.flatMap(listBlockers)
  if (blocker) return blocker
  const uncovered = passes.flatMap((pass) => (pass.kind === 'read' ? pass.uncovered : []))
  if (uncovered.length > 0) return rejectUncovered(uncovered)
  const remainingPasses = PASSES_MAX - passes.length
  if (reviews.length < PASSES_MIN) return remainingPasses > 0 ? undefined : rejectUnusable(passes)
  const approvals = reviews.filter(({ items }) => items.every(({ answer }) => answer === 'yes')).length
  if (approvals >= PASSES_MIN) return { kind: 'accepted' }
  return approvals + remainingPasses >= PASSES_MIN ? undefined : toObjection(reviews)
}

const rejectUncovered = (uncovered: readonly TestAssertion[]): RejectedDecision => ({
  kind: 'rejected',
  reason: 'uncovered_assertions',
  detail:
    `Asked twice, the reviewer names no sentence of the instruction for ${uncovered.length} assertions: ${uncovered
      .map(({ test, text }) => `${test}: ${text || 'the whole test'}`)
      .join('; ')}`
      .slice(0, DETAIL_LENGTH_MAX)
      .toWellFormed(),
})

/** Returns the majority objection, or `verifier_disagree`. */
function toObjection(reviews: readonly ModelReview[]): RejectedDecision {
  const objections = RUBRIC.map(({ item }) =>
    reviews.filter((review) => isNo(review, item)).map((review) => toRejection(review, item)),
  )
  const mostFrequent = objections.reduce((one, other) => (other.length > one.length ? other : one), [])
  const [first] = mostFrequent
  if (first && mostFrequent.length * 2 > reviews.length) return first
  const detail = objections
    .flat()
    .map((each) => each.detail)
    .join(' ')
  return { kind: 'rejected', reason: 'verifier_disagree', detail: detail.slice(0, DETAIL_LENGTH_MAX).toWellFormed() }
}

const isNo = ({ items }: ModelReview, item: number): boolean =>
  items.some((each) => each.item === item && each.answer === 'no')

const listBlockers = (review: ModelReview): RejectedDecision[] =>
  RUBRIC.filter(({ item, isBlocker }) => isBlocker && isNo(review, item)).map(({ item }) => toRejection(review, item))

function toRejection({ items }: ModelReview, item: number): RejectedDecision {
  const { reason } = RUBRIC.find((each) => each.item === item) ?? RUBRIC[0]
  const { why = '', quotes = [] } = items.find((each) => each.item === item) ?? {}
  const quotedText = quotes.map(({ from, quote }) => `${from}: ${JSON.stringify(quote)}`).join('; ')
  return {
    kind: 'rejected',
    reason,
    detail: `Item ${item}: ${why} (${quotedText})`.slice(0, DETAIL_LENGTH_MAX).toWellFormed(),
  }
}

/** Rejects a task with too few usable reviews. The reason distinguishes refusals from invalid answers. */
function rejectUnusable(passes: readonly ReviewPass[]): ReviewDecision {
  const unusable = passes.flatMap((pass) => (pass.kind === 'unusable' ? [pass] : []))
  const isRefused = unusable.every(({ why }) => why === 'refused')
  const detail = unusable
    .map((pass) => pass.detail)
    .join(' ')
    .slice(0, DETAIL_LENGTH_MAX)
    .toWellFormed()
  return { kind: 'rejected', reason: isRefused ? 'verifier_refused' : 'verifier_invalid_output', detail }
}

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
