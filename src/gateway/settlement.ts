import type { BudgetKind, FailureKind, Settlement } from './ledger.ts'
import type { Heard } from './listen-in.ts'
import { nameOf } from './name-of.ts'
import { costMicros, type Prices } from './price.ts'
import { estimatedTokens } from './reservation.ts'
import { callTotals } from './totals.ts'
import { NO_USAGE, type Usage } from './wire.ts'

type Facts = Pick<Settlement, 'status' | 'tries' | 'clientLeft' | 'firstByteMs' | 'totalMs' | 'bodies' | 'outputLimit'>

/** Facts about the cost of a call that are known before it is answered. */
export type Estimate = {
  prices: Prices | null
  reservedMicros: number | null
  /** Expected input tokens. */
  input: number
  /** Most tokens that the model can have read, and produced, for this request. */
  inputMax: number
  outputMax: number
  limitedBy: BudgetKind | null
}

/** `blamed`: the cause of an answer that is not whole. Null: it is whole. */
type Answered = Heard & { blamed: Probed | null; quietMs?: number }

/** A call that was answered. Its cost is in the answer, or else is estimated from what the provider had produced. */
export function settledAnswer(facts: Facts, heard: Answered, estimate: Estimate): Settlement {
  const { blamed } = heard
  return {
    ...facts,
    ...withProbe(costOf(heard, estimate), blamed, estimate),
    outcome: blamed ? 'cut' : 'succeeded',
    failure: blamed ? blamed.failure : budgetCut(heard, estimate),
    servedModel: nameOf(heard.model),
    serviceTier: nameOf(heard.serviceTier),
    isRefusal: heard.isRefusal,
  }
}

/** An answer that ends at a limit that a budget imposed is cut by that budget. */
const budgetCut = ({ isTruncated }: Heard, { limitedBy }: Estimate): BudgetKind | null =>
  isTruncated ? limitedBy : null

/** A call that was refused by the provider, or never reached it: nobody bills that. */
export const settledFree = (facts: Facts, failure: FailureKind | null): Settlement => ({
  ...facts,
  ...NOTHING_SERVED,
  ...{ usage: NO_USAGE, costMicros: 0, costSource: 'metered', failure },
  outcome: failure ? 'failed' : 'succeeded',
})

/** The same, where it took a call of our own to know whose doing it was. That one is billed. */
export const settledProbed = (facts: Facts, blamed: Probed, estimate: Estimate): Settlement => ({
  ...settledFree(facts, blamed.failure),
  ...withProbe(FREE, blamed, estimate),
})

type Probed = { failure: FailureKind; heard: Heard | null }

const FREE: Cost = { usage: NO_USAGE, costMicros: 0, costSource: 'metered' }

/** Input and output tokens of the gateway's own request. */
const PROBE_TOKENS = 16

/** Adds the cost of the gateway's own request. */
function withProbe(cost: Cost, blamed: Probed | null, estimate: Estimate): Cost {
  if (!blamed?.heard) return cost
  const outputMax = Math.max(PROBE_TOKENS, estimate.outputMax)
  const probe = costOf(blamed.heard, { ...estimate, input: PROBE_TOKENS, outputMax })
  return capped(callTotals([cost, probe]), estimate)
}

/** Caps a cost at the reservation: settled and reserved costs together must never exceed a budget. */
function capped(cost: Cost, { reservedMicros }: Estimate): Cost {
  if (cost.costMicros === null || reservedMicros === null || cost.costMicros <= reservedMicros) return cost
  return { ...cost, costMicros: reservedMicros, costSource: 'estimated' }
}

/** A call that was sent and never answered: the provider may have read all of it. */
export const settledSilent = (facts: Facts, estimate: Estimate, blamed: Probed): Settlement => ({
  ...facts,
  ...NOTHING_SERVED,
  ...withProbe(estimated(NOTHING_PRODUCED, facts.totalMs, estimate), blamed, estimate),
  ...{ outcome: 'failed', failure: blamed.failure },
})

const NOTHING_PRODUCED = { partial: { usage: undefined, textBytes: 0 }, isStream: false }
const NOTHING_SERVED = { servedModel: null, serviceTier: null, isRefusal: false }

type Cost = Pick<Settlement, 'usage' | 'costMicros' | 'costSource'>

const costOf = (heard: Heard & { quietMs?: number }, estimate: Estimate): Cost =>
  heard.usage ? metered(heard.usage, heard.serviceTier, estimate) : estimated(heard, heard.quietMs ?? 0, estimate)

/** A provider cannot have read or produced more than the request allowed. Claims beyond that are cut to it. */
function metered(usage: Usage, serviceTier: string | null, estimate: Estimate): Cost {
  const { prices } = estimate
  const believed = believable(usage, estimate)
  const cost = prices && costMicros(believed, prices, serviceTier)
  if (cost === null) return { usage: believed, costMicros: null, costSource: 'unknown' }
  const isBelieved = sumTokens(believed) === sumTokens(usage)
  return capped({ usage: believed, costMicros: cost, costSource: isBelieved ? 'metered' : 'estimated' }, estimate)
}

const sumTokens = ({ input, cacheRead, cacheWrite5m, cacheWrite1h, output }: Usage): number =>
  input + cacheRead + cacheWrite5m + cacheWrite1h + output

function believable(usage: Usage, { inputMax, outputMax }: Estimate): Usage {
  let left = inputMax
  const take = (tokens: number): number => {
    const taken = Math.min(tokens, left)
    left -= taken
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

/** Models reason at about this speed while nothing of it is sent. The first seconds are the provider's queue. */
const HIDDEN_TOKENS_PER_SECOND = 50
const HIDDEN_GRACE_MS = 5_000

const hiddenTokens = (quietMs: number): number =>
  Math.floor((Math.max(0, quietMs - HIDDEN_GRACE_MS) / 1000) * HIDDEN_TOKENS_PER_SECOND)

/**
 * Estimates what a provider bills for a call that ended before it reported its usage: all of the input, and the output
 * that it had produced. Never more than was reserved.
 */
function estimated({ partial, isStream }: Produced, quietMs: number, estimate: Estimate): Cost {
  const { prices, reservedMicros, outputMax } = estimate
  const known = partial.usage && believable(partial.usage, estimate)
  const [text, hidden] = [estimatedTokens(partial.textBytes), hiddenTokens(quietMs)]
  // The text of a whole answer was produced in the same time as the reasoning that was not sent.
  const produced = Math.max(known?.output ?? 0, isStream ? text + hidden : Math.max(text, hidden))
  const usage = { ...NO_USAGE, ...(known ?? { input: estimate.input }), output: Math.min(outputMax, produced) }
  const cost = prices && costMicros(usage, prices)
  if (cost === null || reservedMicros === null) return { usage, costMicros: null, costSource: 'unknown' }
  return capped({ usage, costMicros: cost, costSource: 'estimated' }, estimate)
}

type Produced = Pick<Heard, 'partial' | 'isStream'>
