import type { FailureKind, Settlement } from './ledger.ts'
import type { Heard } from './listen-in.ts'
import { nameOf } from './name-of.ts'
import { costMicros, type Prices } from './price.ts'
import { NO_USAGE, type Usage } from './wire.ts'

type Facts = Pick<Settlement, 'status' | 'tries' | 'clientLeft' | 'firstByteMs' | 'totalMs' | 'bodies'>

/** What a call can have cost at most, by what was asked. */
export type Estimate = { prices: Prices | null; reservedMicros: number | null; input: number; outputMax: number }

/** `isOwnCut`: the program brought it about. */
type Answered = Heard & { wasCut: boolean; isOwnCut?: boolean }

/** A call that was answered. What it cost stands in the answer, or else is guessed from how much of it there was. */
export function settledAnswer(facts: Facts, heard: Answered, estimate: Estimate): Settlement {
  const isWhole = heard.isComplete && !heard.wasCut
  return {
    ...facts,
    ...costOf(heard, estimate),
    outcome: isWhole ? 'succeeded' : 'cut',
    failure: isWhole ? null : (heard.failure ?? (heard.isOwnCut ? 'request' : 'upstream')),
    servedModel: nameOf(heard.model),
    serviceTier: nameOf(heard.serviceTier),
    isRefusal: heard.isRefusal,
  }
}

/** A call that was refused by the provider, or never reached it: nobody bills that. */
export const settledFree = (facts: Facts, failure: FailureKind | null): Settlement => ({
  ...facts,
  ...NOTHING_SERVED,
  ...{ usage: NO_USAGE, costMicros: 0, costSource: 'metered', failure },
  outcome: failure ? 'failed' : 'succeeded',
})

/** The same, where it took a call of our own to know whose doing it was. That one is billed. */
export const settledProbed = (facts: Facts, { failure, heard }: Probed, estimate: Estimate): Settlement => ({
  ...settledFree(facts, failure),
  ...(heard ? costOf(heard, estimate) : {}),
})

type Probed = { failure: FailureKind; heard: Heard | null }

/** A call that was sent and never answered: the provider may have read all of it. */
export const settledSilent = (facts: Facts, estimate: Estimate, failure: FailureKind = 'upstream'): Settlement => ({
  ...facts,
  ...NOTHING_SERVED,
  ...guessed(0, estimate),
  ...{ outcome: 'failed', failure },
})

const NOTHING_SERVED = { servedModel: null, serviceTier: null, isRefusal: false }

type Cost = Pick<Settlement, 'usage' | 'costMicros' | 'costSource'>

const costOf = (heard: Heard, estimate: Estimate): Cost =>
  heard.usage && Object.values(heard.usage).every((tokens) => tokens <= TOKENS_MAX)
    ? metered(heard.usage, heard.serviceTier, estimate)
    : guessed(heard.bytes, estimate)

// A sum of what no model takes. It would not fit the ledger.
const TOKENS_MAX = 1_000_000_000

function metered(usage: Usage, serviceTier: string | null, { prices }: Estimate): Cost {
  const cost = prices && costMicros(usage, prices, serviceTier)
  return { usage, costMicros: cost, costSource: cost === null ? 'unknown' : 'metered' }
}

const BYTES_PER_TOKEN = 4

/** Rather too much than too little, and never more than was reserved. */
function guessed(bytes: number, { prices, reservedMicros, input, outputMax }: Estimate): Cost {
  const usage = { ...NO_USAGE, input, output: Math.min(outputMax, Math.ceil(bytes / BYTES_PER_TOKEN)) }
  const cost = prices && costMicros(usage, prices)
  if (cost === null || reservedMicros === null) return { usage, costMicros: null, costSource: 'unknown' }
  return { usage, costMicros: Math.min(cost, reservedMicros), costSource: 'estimated' }
}
