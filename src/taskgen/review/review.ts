import { toAnswerShape } from '../models/answer-schema.ts'
import { askTyped, type TypedAnswer } from '../models/ask-typed.ts'
import { isSameFamily, type NamedModel } from '../models/served-model.ts'
import type { ModelBill, StageModel } from '../models/stage-model.ts'
import { done, reject, type StageDeferral, type StageRejection, type StageResult } from '../stage-result.ts'
import { decideReview, PASSES_MAX, type ReviewDecision, type ReviewPass } from './decide.ts'
import { listReviewFaults, ModelReview, type ReviewMaterial } from './model-review.ts'
import { buildMaterial, buildReviewPrompt, type ReviewInput, reviewNeutral, reviewSystem } from './review-prompt.ts'

/** Kept with the candidate, however it came out. */
export type ReviewVerdict = {
  decision: ReviewDecision
  passes: ReviewPass[]
  /** Estimate of each reviewer. */
  minutes: number[]
  /** `self_verified`: who wrote it and who checked it are of one house. */
  flags: 'self_verified'[]
  model: { catalogId: string; provider: string; name: string }
  bill: ModelBill
}

const SHAPE = toAnswerShape('reading', ModelReview)
const REPAIRS_MAX = 2

/**
 * Two readers who do not know of each other, and a third where they differ. A rejection has the verdict as its
 * evidence.
 */
export async function reviewTask(
  model: StageModel,
  input: ReviewInput & { author: NamedModel | null },
  signal: AbortSignal,
): Promise<StageResult<ReviewVerdict>> {
  const material = buildMaterial(input)
  const passes: ReviewPass[] = []
  let decision: ReviewDecision | undefined
  while (!decision && passes.length < PASSES_MAX) {
    const pass = toReviewPass(await askForReview(model, input, material, { number: passes.length, signal }))
    if (pass.kind === 'deferred' || pass.kind === 'rejected') return pass
    passes.push(pass)
    decision = decideReview(passes)
  }
  if (!decision) throw new Error('Three passes came to no end.')
  const verdict: ReviewVerdict = {
    decision,
    passes,
    minutes: passes.flatMap((pass) => (pass.kind === 'read' ? [pass.reading.minutes] : [])),
    flags: input.author && isSameFamily(input.author, model) ? ['self_verified'] : [],
    model: { catalogId: model.catalogId, provider: model.provider, name: model.name },
    bill: await model.bill(),
  }
  return decision.kind === 'accepted' ? done(verdict) : reject(decision.reason, decision.detail, verdict)
}

type ReviewTurn = { number: number; signal: AbortSignal }

const askForReview = (
  model: StageModel,
  input: ReviewInput,
  material: ReviewMaterial,
  { number, signal }: ReviewTurn,
) =>
  askTyped(
    model,
    {
      system: reviewSystem(number),
      neutral: reviewNeutral(number),
      shape: SHAPE,
      schema: ModelReview,
      prompt: buildReviewPrompt(input, material, number),
      faults: (reading) => listReviewFaults(reading, material),
      repairsMax: REPAIRS_MAX,
    },
    signal,
  )

function toReviewPass(answer: TypedAnswer<ModelReview>): ReviewPass | StageDeferral | StageRejection {
  switch (answer.kind) {
    case 'value':
      return { kind: 'read', reading: answer.value, rounds: answer.rounds }
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
