import type { HelperRule } from '../harnesses/harness.ts'
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
  /** What a request may produce that does not say how much. */
  outputTokens: number
  /** Null: nobody knows. Costs are unknown then, and never zero. */
  prices: Prices | null
  /** None fits: the name is refused, as the provider refuses a model that it does not have. */
  helpers: readonly HelperRule[]
  recordBodies: boolean
}

export type GrantFacts = {
  id: string
  workspaceId: string
  subject: string
  credentialId: string
  terms: Terms
  budgetMicros: number | null
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
export type FailureKind = 'credential' | 'rate' | 'crowded' | 'upstream' | 'model' | 'request' | 'gateway'

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
export type GrantRefusal = 'closed' | 'expired' | 'calls' | 'budget'

export const FINAL: readonly Refusal[] = ['budget', 'calls', 'closed', 'expired', 'price', 'credential']

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
  /** Null: its cost cannot be known beforehand, nor later. */
  reservedMicros: number | null
}

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
}

/** One row. Until it is settled it costs its reservation: a process that dies leaves it so. */
export type Call = Omit<NewCall, 'gatewayId'> &
  Omit<Settlement, 'outcome' | 'totalMs'> & {
    /** Null: it was made before gateways had names. */
    gatewayId: string | null
    outcome: Outcome
    totalMs: number | null
    startedAt: Date
    settledAt: Date | null
  }

export type GrantState = {
  grant: GrantFacts
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
  reserve(call: NewCall): Promise<'reserved' | GrantRefusal>
  refuse(grantId: string, reason: Refusal): Promise<void>
  /** The first settlement counts. */
  settle(callId: string, settlement: Settlement): Promise<void>
  /** No call is reserved after this. */
  close(grantId: string): Promise<void>
  countOpenCalls(grantId: string): Promise<number>
  /** A gateway lives, and has its calls in hand. */
  noteAlive(gatewayId: string): Promise<void>
  /** Calls that nobody will settle any more stay at their reservations, and are called lost: with their gateway, if it died. */
  giveUpOpenCalls(grantId: string): Promise<void>
  read(grantId: string): Promise<GrantState | undefined>
}
