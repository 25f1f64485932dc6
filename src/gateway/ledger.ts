import type { Cloud } from '../credentials/schema.ts'
import type { AuxiliaryModelRule } from '../harnesses/harness.ts'
import type { Protocol, WireLevel } from '../harnesses/model-access.ts'
import type { CallPrices } from './price.ts'
import type { Usage } from './wire-protocol.ts'

/** The terms that apply to every call of a grant, as they were when the grant was opened. */
export type Terms = {
  catalogId: string
  /** Model name in the provider's API. */
  model: string
  provider: string
  /** Overrides the address that the operator configured or the provider publishes. */
  baseUrl: string | null
  /** The cloud that hosts the model. Undefined if its provider has a plain API with a key. */
  cloud?: Cloud | undefined
  protocols: Protocol[]
  wireLevel: WireLevel
  /** Maximum number of input tokens that the model accepts. Undefined in grants opened before it was recorded. */
  contextTokens?: number | undefined
  /** A workspace declared the context window. The provider may accept more, so it bounds no reservation. */
  isContextDeclared?: boolean | undefined
  /** Maximum number of output tokens of a request that sets no limit. */
  outputTokens: number
  /** Null if unknown. Costs are then unknown too, and never zero. */
  prices: CallPrices | null
  /** Rules for auxiliary models. A name that no rule matches is refused, as the provider refuses unknown models. */
  helpers: readonly AuxiliaryModelRule[]
  recordBodies: boolean
}

export type GrantFacts = {
  id: string
  workspaceId: string
  grantee: string
  credentialId: string
  terms: Terms
  budgetMicros: number | null
  /** Id of the budget that this grant shares with others. Only the stored ledger supports shared budgets. */
  sharedBudget?: string | null | undefined
  callsMax: number
  expiresAt: Date
}

export type NewGrant = GrantFacts & { tokenHash: Buffer; tunnelSecretHash: Buffer }

/** A grant as the gateway caches it. The terms never change; each reservation checks that the grant is open. */
export type Grant = GrantFacts & { tokenHash: Buffer }

export type CostSource = 'metered' | 'estimated' | 'reserved' | 'unknown'
type CallKind = 'generate' | 'count'
export type CallOutcome = 'open' | 'succeeded' | 'failed' | 'cut' | 'lost'

/**
 * The cause of a failed call. `request`: the request itself. `rate`: a rate limit that other users of the account caused.
 * `crowded`: a rate limit that either side may have caused. `interrupted`: an outage that either side may have caused.
 * `gateway`: the gateway died.
 */
export type FailureKind =
  | 'credential'
  | 'rate'
  | 'crowded'
  | 'upstream'
  | 'interrupted'
  | 'model'
  | 'request'
  | 'gateway'
  | BudgetKind

/**
 * A grant's own budget or its shared one. As a failure: the answer was cut at the output limit that the budget
 * imposed.
 */
export type BudgetKind = 'budget' | 'shared_budget'

/** Reason why a request was not forwarded. docs/gateway.md lists them. `hosted`: it asks for a server-side tool. */
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

/** Refusals after which the program can make no further calls. */
export const FINAL_REFUSALS: readonly Refusal[] = [
  'budget',
  'shared_budget',
  'calls',
  'closed',
  'expired',
  'price',
  'credential',
]

/** Returns true for refusals after which no call can succeed. Other refusals never hide an earlier failure. */
export const isFinalRefusal = (reason: Refusal): boolean => FINAL_REFUSALS.includes(reason)

export type NewCall = {
  id: string
  grantId: string
  /** The gateway that handles the call. */
  gatewayId: string
  kind: CallKind
  protocol: Protocol
  /** Name of the auxiliary model that the request asked for. Null if it asked for the grant's model. */
  helper: string | null
  /** Reasoning level of the request if it differs from the terms. `unsaid`: the request named none. */
  levelAsked: WireLevel | { unsaid: true } | null
  /** Null if the price is unknown. The cost is then never known. */
  bounds: ReservationBounds | null
}

/**
 * Possible reservations of a call. `mostMicros` covers the longest answer, `leastMicros` the shortest useful
 * one. While a shared budget is short, one call takes a quarter of it or `usualMicros`, whichever is more, so that
 * concurrent calls do not starve each other.
 */
export type ReservationBounds = { mostMicros: number; usualMicros: number; leastMicros: number }

/** A reserved call. `limitedBy`: the budget because of which less than `mostMicros` was reserved. */
export type Reserved = { kind: 'reserved'; reservedMicros: number | null; limitedBy: BudgetKind | null }

/** A call that does not fit its grant. `mayPass`: it fits once reservations of open calls are returned. */
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
  /** The output limit that the gateway wrote into the request, if it did. */
  outputLimit: number | null
  /** The provider's message about a failed call, or why it could not be reached. Printable, short, without the key. */
  message?: string | null | undefined
}

/** A row of the ledger. The reservation is pending while the call is open, and becomes its cost if its gateway dies. */
export type RecordedCall = Omit<NewCall, 'gatewayId' | 'bounds'> &
  Omit<Settlement, 'outcome' | 'totalMs'> & {
    /** Null for calls that were made before gateways had ids. */
    gatewayId: string | null
    outcome: CallOutcome
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
  calls: RecordedCall[]
}

/** Storage of grants and calls. Two implementations pass one contract test. */
export type Ledger = {
  /** Stores a grant, and closes earlier grants of the same grantee. */
  open(grant: NewGrant): Promise<void>
  /** Finds a grant, also a closed or expired one, so that its program gets an error that it understands. */
  findByTunnelSecret(hash: Buffer): Promise<Grant | undefined>
  /** Replaces the tunnel secret of a grant. Returns false if it is closed, expired or unknown. */
  renew(grantId: string, tunnelSecretHash: Buffer): Promise<boolean>
  /** Reserves the cost of a call. The reservation is durable when this returns. Only then may the call be sent. */
  reserve(call: NewCall): Promise<ReserveResult>
  /** Counts a refused request. */
  refuse(grantId: string, reason: Refusal): Promise<void>
  /** Settles a call. The first settlement counts; it also replaces the reservation of a call that was marked as lost. */
  settle(callId: string, settlement: Settlement): Promise<void>
  /** Prevents further reservations. */
  close(grantId: string): Promise<void>
  countOpenCalls(grantId: string): Promise<number>
  /** Records that a gateway is alive. */
  noteAlive(gatewayId: string): Promise<void>
  /** Marks open calls of dead gateways as lost, at their reservations. Open calls of a live gateway stay open. */
  giveUpLostCalls(grantId: string): Promise<void>
  read(grantId: string): Promise<GrantState | undefined>
}

const NAME_CHARS_MAX = 200

/** Makes an untrusted name storable: short, well-formed, and without control characters. */
export const toStorableName = <T extends string | null>(name: T): T | string =>
  typeof name === 'string' ? name.slice(0, NAME_CHARS_MAX).replace(CONTROL_CHARS, '\ufffd').toWellFormed() : name

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters on purpose
const CONTROL_CHARS = /[\u0000-\u001f\u007f]/g
