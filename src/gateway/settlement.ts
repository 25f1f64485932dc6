import type { BudgetKind, FailureKind, Settlement } from './ledger.ts'
import type { Heard } from './listen-in.ts'
import { nameOf } from './name-of.ts'
import { costMicros, type Prices } from './price.ts'
import { estimatedTokens } from './reservation.ts'
import { callTotals } from './totals.ts'
import { NO_USAGE, type PartialAnswer, type Usage } from './wire.ts'

type Facts = Pick<Settlement, 'status' | 'tries' | 'clientLeft' | 'firstByteMs' | 'totalMs' | 'bodies' | 'outputLimit'>

/** What is known of the cost of a call before it is answered. `input`: expected tokens of the request. */
export type Estimate = {
  prices: Prices | null
  reservedMicros: number | null
  input: number
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

/** Adds the cost of the gateway's own request. The sum never exceeds the reservation. */
function withProbe(cost: Cost, blamed: Probed | null, estimate: Estimate): Cost {
  if (!blamed?.heard) return cost
  const probe = costOf(blamed.heard, estimate)
  const { usage, costMicros, costSource } = callTotals([cost, probe])
  const capped = costMicros === null ? null : Math.min(costMicros, estimate.reservedMicros ?? costMicros)
  return { usage, costMicros: capped, costSource }
}

/** A call that was sent and never answered: the provider may have read all of it. */
export const settledSilent = (facts: Facts, estimate: Estimate, blamed: Probed): Settlement => ({
  ...facts,
  ...NOTHING_SERVED,
  ...withProbe(estimated({ usage: undefined, textBytes: 0 }, facts.totalMs, estimate), blamed, estimate),
  ...{ outcome: 'failed', failure: blamed.failure },
})

const NOTHING_SERVED = { servedModel: null, serviceTier: null, isRefusal: false }

type Cost = Pick<Settlement, 'usage' | 'costMicros' | 'costSource'>

const costOf = (heard: Heard & { quietMs?: number }, estimate: Estimate): Cost =>
  heard.usage && Object.values(heard.usage).every((tokens) => tokens <= TOKENS_MAX)
    ? metered(heard.usage, heard.serviceTier, estimate)
    : estimated(heard.partial, heard.quietMs ?? 0, estimate)

// A sum of what no model takes. It would not fit the ledger.
const TOKENS_MAX = 1_000_000_000

function metered(usage: Usage, serviceTier: string | null, { prices }: Estimate): Cost {
  const cost = prices && costMicros(usage, prices, serviceTier)
  return { usage, costMicros: cost, costSource: cost === null ? 'unknown' : 'metered' }
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
function estimated({ usage: known, textBytes }: PartialAnswer, quietMs: number, estimate: Estimate): Cost {
  const { prices, reservedMicros, outputMax } = estimate
  const produced = Math.max(known?.output ?? 0, estimatedTokens(textBytes) + hiddenTokens(quietMs))
  const usage = { ...NO_USAGE, ...(known ?? { input: estimate.input }), output: Math.min(outputMax, produced) }
  const cost = prices && costMicros(usage, prices)
  if (cost === null || reservedMicros === null) return { usage, costMicros: null, costSource: 'unknown' }
  return { usage, costMicros: Math.min(cost, reservedMicros), costSource: 'estimated' }
}
