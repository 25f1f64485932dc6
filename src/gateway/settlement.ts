import { type BudgetKind, type FailureKind, type Settlement, toStorableName } from './ledger.ts'
import { type CallPrices, computeCostMicros } from './price.ts'
import { estimateTokens } from './reservation.ts'
import { sumCalls } from './totals.ts'
import type { TappedAnswer } from './usage-tap.ts'
import { NO_USAGE, sumInputTokens, type Usage } from './wire-protocol.ts'

/** The part of a settlement that does not depend on the answer's content. */
export type CallFacts = Pick<
  Settlement,
  'status' | 'tries' | 'clientLeft' | 'firstByteMs' | 'totalMs' | 'bodies' | 'outputLimit' | 'message'
>

/** Facts about the cost of a call that are known before it is answered. */
export type CostEstimate = {
  prices: CallPrices | null
  reservedMicros: number | null
  /** Expected input tokens. */
  input: number
  /** Input tokens that the reservation covers. */
  inputReserved: number
  /** Upper bound of the input tokens by the bytes that were sent. */
  inputSent: number
  /** Upper bound of the input tokens that the model can have read. Usage above it is not believed. */
  inputMax: number
  /** Upper bound of the output tokens that the model can have produced. Usage above it is not believed. */
  outputMax: number
  /** The budget because of which the output was limited. */
  limitedBy: BudgetKind | null
}

/** The cause of a failure, and the answer to the gateway's own request if one was sent. */
export type Attribution = { failure: FailureKind; probeAnswer: TappedAnswer | null }

/** `attribution` is null if the answer is complete. `textDelayMs` is the time before the first text. */
type AttributedAnswer = TappedAnswer & { attribution: Attribution | null; textDelayMs?: number }

/** Settles a call that was answered, at the reported usage or at an estimate of what the provider produced. */
export function settleAnswer(facts: CallFacts, answer: AttributedAnswer, estimate: CostEstimate): Settlement {
  const { attribution } = answer
  return {
    ...facts,
    ...addProbeCost(computeCost(answer, estimate), attribution, estimate),
    outcome: attribution ? 'cut' : 'succeeded',
    failure: attribution ? attribution.failure : findCuttingBudget(answer, estimate),
    servedModel: toStorableName(answer.model),
    serviceTier: toStorableName(answer.serviceTier),
    isRefusal: answer.isRefusal,
  }
}

/** Returns the budget that limited the output, if the answer was truncated at that limit. */
const findCuttingBudget = ({ isTruncated }: TappedAnswer, { limitedBy }: CostEstimate): BudgetKind | null =>
  isTruncated ? limitedBy : null

/** Settles a call that the provider rejected or never received. Providers do not bill those. */
export const settleFree = (facts: CallFacts, failure: FailureKind | null): Settlement => ({
  ...facts,
  ...NOTHING_SERVED,
  ...NO_COST,
  failure,
  outcome: failure ? 'failed' : 'succeeded',
})

/** Settles a rejected call at the cost of the gateway's own request, if one was sent. */
export const settleProbed = (facts: CallFacts, attribution: Attribution, estimate: CostEstimate): Settlement => ({
  ...settleFree(facts, attribution.failure),
  ...addProbeCost(NO_COST, attribution, estimate),
})

/** Settles a call that was sent and never answered. The provider may have read the whole request. */
export const settleSilent = (facts: CallFacts, estimate: CostEstimate, attribution: Attribution): Settlement => ({
  ...facts,
  ...NOTHING_SERVED,
  ...addProbeCost(estimateCost(NOTHING_PRODUCED, facts.totalMs, estimate), attribution, estimate),
  outcome: 'failed',
  failure: attribution.failure,
})

/** Settles a call that may have cost all that was reserved, because its usage will never be known. */
export const settleAtReservation = (settlement: Settlement, { reservedMicros }: CostEstimate): Settlement =>
  settlement.costMicros === null || reservedMicros === null || settlement.costMicros >= reservedMicros
    ? settlement
    : { ...settlement, costMicros: reservedMicros, costSource: 'estimated' }

type CallCost = Pick<Settlement, 'usage' | 'costMicros' | 'costSource'>

const NO_COST: CallCost = { usage: NO_USAGE, costMicros: 0, costSource: 'metered' }
const NOTHING_SERVED = { servedModel: null, serviceTier: null, isRefusal: false }
const NOTHING_PRODUCED: ProducedOutput = { partial: { usage: undefined, textBytes: 0 }, isStream: false }

/** Upper bound of the input tokens, and of the output tokens, of the gateway's own request. */
const PROBE_TOKENS = 16

/** Adds the cost of the probe, within the reservation. A cost that already exceeds the reservation is kept. */
function addProbeCost(cost: CallCost, attribution: Attribution | null, estimate: CostEstimate): CallCost {
  if (!attribution?.probeAnswer) return cost
  const outputMax = Math.max(PROBE_TOKENS, estimate.outputMax)
  const probeCost = computeCost(attribution.probeAnswer, { ...estimate, input: PROBE_TOKENS, outputMax })
  const { reservedMicros } = estimate
  const capMicros = reservedMicros === null ? null : Math.max(reservedMicros, cost.costMicros ?? 0)
  return capCost(sumCalls([cost, probeCost]), { reservedMicros: capMicros })
}

/** Caps a cost at the reservation: settled and reserved costs together must never exceed a budget. */
function capCost(cost: CallCost, { reservedMicros }: Pick<CostEstimate, 'reservedMicros'>): CallCost {
  if (cost.costMicros === null || reservedMicros === null || cost.costMicros <= reservedMicros) return cost
  return { ...cost, costMicros: reservedMicros, costSource: 'estimated' }
}

/** Caps a cost, unless the provider reports more input than was reserved and the bytes that were sent explain it. */
function capUnbelievable(cost: CallCost, reported: Usage, estimate: CostEstimate): CallCost {
  const input = sumInputTokens(reported)
  const isExplained =
    input > estimate.inputReserved && input <= estimate.inputSent && reported.output <= estimate.outputMax
  return isExplained ? cost : capCost(cost, estimate)
}

const computeCost = (answer: TappedAnswer & { textDelayMs?: number }, estimate: CostEstimate): CallCost =>
  answer.usage
    ? meterCost(answer.usage, answer.serviceTier, estimate)
    : estimateCost(answer, answer.textDelayMs ?? 0, estimate)

function meterCost(reported: Usage, serviceTier: string | null, estimate: CostEstimate): CallCost {
  const { prices } = estimate
  const usage = clipUsage(reported, estimate)
  const cost = prices && computeCostMicros(usage, prices, serviceTier)
  if (cost === null) return { usage, costMicros: null, costSource: 'unknown' }
  const isPlausible = sumTokens(usage) === sumTokens(reported)
  return capUnbelievable(
    { usage, costMicros: cost, costSource: isPlausible ? 'metered' : 'estimated' },
    reported,
    estimate,
  )
}

const sumTokens = (usage: Usage): number => sumInputTokens(usage) + usage.output

/** Clips usage to what the request allowed. A provider cannot have read or produced more, whatever it reports. */
function clipUsage(usage: Usage, { inputMax, outputMax }: CostEstimate): Usage {
  let remaining = inputMax
  const take = (tokens: number): number => {
    const taken = Math.min(tokens, remaining)
    remaining -= taken
    return taken
  }
  const output = Math.min(usage.output, outputMax)
  return {
    input: take(usage.input),
    cacheRead: take(usage.cacheRead),
    cacheWrite5m: take(usage.cacheWrite5m),
    cacheWrite1h: take(usage.cacheWrite1h),
    output,
    reasoning: Math.min(usage.reasoning, output),
  }
}

/** Approximate speed of reasoning that is not sent to the client. */
const HIDDEN_TOKENS_PER_SECOND = 50
/** Time that a call is assumed to spend in the provider's queue before any reasoning. */
const QUEUE_MS = 5_000

/** Estimates the reasoning tokens that were produced in the silence before the first text. */
const estimateHiddenTokens = (textDelayMs: number): number =>
  Math.floor((Math.max(0, textDelayMs - QUEUE_MS) / 1000) * HIDDEN_TOKENS_PER_SECOND)

type ProducedOutput = Pick<TappedAnswer, 'partial' | 'isStream'>

/**
 * Estimates the bill for a call whose usage the provider did not report: all of the input, and the output that it had
 * produced.
 */
function estimateCost({ partial, isStream }: ProducedOutput, textDelayMs: number, estimate: CostEstimate): CallCost {
  const { prices, reservedMicros, outputMax } = estimate
  const reported = partial.usage && clipUsage(partial.usage, estimate)
  const textTokens = estimateTokens(partial.textBytes)
  const hiddenTokens = estimateHiddenTokens(textDelayMs)
  // The silence of a call without streaming includes the time in which the text was produced.
  const estimatedTokens = isStream ? textTokens + hiddenTokens : Math.max(textTokens, hiddenTokens)
  const output = Math.min(outputMax, Math.max(reported?.output ?? 0, estimatedTokens))
  const usage = { ...NO_USAGE, ...(reported ?? { input: estimate.input }), output }
  const cost = prices && computeCostMicros(usage, prices)
  if (cost === null || reservedMicros === null) return { usage, costMicros: null, costSource: 'unknown' }
  return capUnbelievable({ usage, costMicros: cost, costSource: 'estimated' }, partial.usage ?? NO_USAGE, estimate)
}
