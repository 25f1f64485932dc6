import { shapeOf } from '../models/answer-schema.ts'
import { askTyped, type TypedAnswer } from '../models/ask-typed.ts'
import { isSameFamily, type NamedModel } from '../models/served-model.ts'
import type { Bill, Model } from '../models/stage-model.ts'
import { done, reject, type StageDeferral, type StageRejection, type StageResult } from '../stage-result.ts'
import { type Decision, decisionOf, PASSES_MAX, type Pass } from './decide.ts'
import { type Material, Reading, readingFaults } from './reading.ts'
import { materialOf, type VerifyOrder, verifyNeutral, verifyPrompt, verifySystem } from './review-prompt.ts'

/** Kept with the candidate, however it came out. */
export type Verdict = {
  decision: Decision
  passes: Pass[]
  /** As each reader judged it. */
  minutes: number[]
  /** `self_verified`: who wrote it and who checked it are of one house. */
  flags: 'self_verified'[]
  model: { catalogId: string; provider: string; name: string }
  bill: Bill
}

const SHAPE = shapeOf('reading', Reading)
const REPAIRS_MAX = 2

/** Two readers who do not know of each other, and a third where they differ. A rejection has the verdict as its evidence. */
export async function verify(
  model: Model,
  order: VerifyOrder & { author: NamedModel | null },
  signal: AbortSignal,
): Promise<StageResult<Verdict>> {
  const material = materialOf(order)
  const passes: Pass[] = []
  let decision: Decision | undefined
  while (!decision && passes.length < PASSES_MAX) {
    const pass = passOf(await read(model, order, material, { number: passes.length, signal }))
    if (pass.kind === 'deferred' || pass.kind === 'rejected') return pass
    passes.push(pass)
    decision = decisionOf(passes)
  }
  if (!decision) throw new Error('Three passes came to no end.')
  const verdict: Verdict = {
    ...{ decision, passes },
    minutes: passes.flatMap((pass) => (pass.kind === 'read' ? [pass.reading.minutes] : [])),
    flags: order.author && isSameFamily(order.author, model) ? ['self_verified'] : [],
    model: { catalogId: model.catalogId, provider: model.provider, name: model.name },
    bill: await model.bill(),
  }
  return decision.kind === 'accepted' ? done(verdict) : reject(decision.reason, decision.detail, verdict)
}

type Turn = { number: number; signal: AbortSignal }

const read = (model: Model, order: VerifyOrder, material: Material, { number, signal }: Turn) =>
  askTyped(
    model,
    {
      ...{ system: verifySystem(number), neutral: verifyNeutral(number), shape: SHAPE, schema: Reading },
      prompt: verifyPrompt(order, material, number),
      faults: (reading) => readingFaults(reading, material),
      repairsMax: REPAIRS_MAX,
    },
    signal,
  )

function passOf(answer: TypedAnswer<Reading>): Pass | StageDeferral | StageRejection {
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
