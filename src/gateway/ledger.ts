import type { AuxiliaryModelRule } from '../harnesses/harness.ts'
import type { Protocol, WireLevel } from '../harnesses/model-access.ts'
import type { Prices } from './price.ts'
import type { Usage } from './wire.ts'

/** What every call of a grant is held to, as it was when the grant was opened. */
export type Terms = {
  catalogId: string
  /** The name on the wire. */
  model: string
  provider: string
  /** Null: where the operator, or else the provider itself, has it. */
  baseUrl: string | null
  protocols: Protocol[]
  wireLevel: WireLevel
  /** Maximum number of input tokens that the model accepts. Undefined in grants opened before it was recorded. */
  contextTokens?: number | undefined
  /** What a request may produce that does not say how much. */
  outputTokens: number
  /** Null: nobody knows. Costs are unknown then, and never zero. */
  prices: Prices | null
  /** None fits: the name is refused, as the provider refuses a model that it does not have. */
  helpers: readonly AuxiliaryModelRule[]
  recordBodies: boolean
}

export type GrantFacts = {
  id: string
  workspaceId: string
  subject: string
  credentialId: string
  terms: Terms
  budgetMicros: number | null
  /** Id of the budget that this grant shares with others. Only a stored ledger has shared budgets. */
  sharedBudget?: string | null | undefined
  callsMax: number
  expiresAt: Date
}

export type NewGrant = GrantFacts & { tokenHash: Buffer; listenerHash: Buffer }

/** As the gateway knows it. The terms never change; whether it is open is asked with each reservation. */
export type Grant = GrantFacts & { tokenHash: Buffer }

export type CostSource = 'metered' | 'estimated' | 'reserved' | 'unknown'
type CallKind = 'generate' | 'count'
export type Outcome = 'open' | 'succeeded' | 'failed' | 'cut' | 'lost'

/**
 * Whose doing it is that a call failed. `request`: the provider found fault with what was asked. `rate`: it was one too
 * many for the account, and that was others' doing. `crowded`: the same, and nobody knows whose. `gateway`: ours died.
 */
export type FailureKind = 'credential' | 'rate' | 'crowded' | 'upstream' | 'model' | 'request' | 'gateway' | BudgetKind

/** A grant's own budget, or the one that it shares. As a failure: the answer was cut at the limit that it imposed. */
export type BudgetKind = 'budget' | 'shared_budget'

/** Why something was never sent on. */
export type Refusal =
  | GrantRefusal
  | 'price'
  | 'credential'
  | 'model'
  | 'hosted'
  | 'surcharge'
  | 'token'
  | 'size'
  | 'malformed'
  | 'path'
  | 'busy'
export type GrantRefusal = 'closed' | 'expired' | 'calls' | BudgetKind

export const FINAL: readonly Refusal[] = [
  'budget',
  'shared_budget',
  'calls',
  'closed',
  'expired',
  'price',
  'credential',
]

/** After it a program has no more calls to make. All others it may earn in passing: they hide nothing that matters. */
export const isFinal = (reason: Refusal): boolean => FINAL.includes(reason)

export type NewCall = {
  id: string
  grantId: string
  /** Which of the gateways has it. */
  gatewayId: string
  kind: CallKind
  protocol: Protocol
  helper: string | null
  levelAsked: WireLevel | { unsaid: true } | null
  /** Null: the price is unknown, so the cost can be known neither beforehand nor later. */
  bounds: ReservationBounds | null
}

/**
 * The reservations that a call can work with. `mostMicros` covers the longest answer, `leastMicros` the shortest useful
 * one. While a shared budget is short, one call takes a quarter of it or `usualMicros`, whichever is more, so that
 * concurrent calls do not starve each other.
 */
export type ReservationBounds = { mostMicros: number; usualMicros: number; leastMicros: number }

/** `limitedBy`: less than `mostMicros` was reserved because this budget did not cover it. */
export type Reserved = { kind: 'reserved'; reservedMicros: number | null; limitedBy: BudgetKind | null }

/** `mayPass`: open calls hold reservations that, once returned, leave room for this call. */
export type ReservationRefused = {
  kind: 'refused'
  reason: GrantRefusal | 'price'
  mayPass: boolean
  /** Set when the reason is `shared_budget`. */
  shared?: SharedBudgetState | undefined
}

/** The state of a shared budget as one of its grants sees it. */
export type SharedBudgetState = {
  totalMicros: number
  /** The part that is neither spent nor reserved by other grants. */
  freeMicros: number
  /** Cost of the most expensive settled call of the grant. */
  largestCallMicros: number
}

export type ReserveResult = Reserved | ReservationRefused

export type Settlement = {
  outcome: 'succeeded' | 'failed' | 'cut'
  usage: Usage
  costMicros: number | null
  costSource: CostSource
  status: number | null
  failure: FailureKind | null
  tries: number
  servedModel: string | null
  serviceTier: string | null
  isRefusal: boolean
  clientLeft: boolean
  firstByteMs: number | null
  totalMs: number
  bodies: string | null
  /** The output limit that the gateway wrote into the request. Null: the request went out as it came. */
  outputLimit: number | null
}

/** One row of the ledger. Its reservation is pending while it is open, and its cost when its gateway has died. */
export type Call = Omit<NewCall, 'gatewayId' | 'bounds'> &
  Omit<Settlement, 'outcome' | 'totalMs'> & {
    /** Null: it was made before gateways had names. */
    gatewayId: string | null
    outcome: Outcome
    reservedMicros: number | null
    limitedBy: BudgetKind | null
    totalMs: number | null
    startedAt: Date
    settledAt: Date | null
  }

export type GrantState = {
  grant: GrantFacts
  /** Settled costs and the reservations of open calls. */
  spentMicros: number
  refusals: Partial<Record<Refusal, number>>
  lastRefusal: { reason: Refusal; at: Date } | null
  closedAt: Date | null
  calls: Call[]
}

/** Where grants and calls are written down: one interface, two makers, one contract test. */
export type Ledger = {
  /** Closes the grants that its subject had before. */
  open(grant: NewGrant): Promise<void>
  /** Closed and expired ones too: whoever calls is told so in words that his program understands. */
  findByListener(hash: Buffer): Promise<Grant | undefined>
  /** Durable when it returns: only then may the call be sent on. */
  reserve(call: NewCall): Promise<ReserveResult>
  refuse(grantId: string, reason: Refusal): Promise<void>
  /** The first settlement counts. It also replaces the reservation of a call that was given up as lost. */
  settle(callId: string, settlement: Settlement): Promise<void>
  /** No call is reserved after this. */
  close(grantId: string): Promise<void>
  countOpenCalls(grantId: string): Promise<number>
  /** A gateway lives, and has its calls in hand. */
  noteAlive(gatewayId: string): Promise<void>
  /** Marks open calls of dead gateways as lost, at their reservations. Open calls of a living gateway stay open. */
  giveUpLostCalls(grantId: string): Promise<void>
  read(grantId: string): Promise<GrantState | undefined>
}
