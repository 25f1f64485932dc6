import {
  type BudgetKind,
  type CallOutcome,
  type CostSource,
  type FailureKind,
  type GrantState,
  isFinalRefusal,
  type RecordedCall,
  type Refusal,
} from './ledger.ts'
import { addUsage, NO_USAGE, type Usage } from './wire-protocol.ts'

/** Totals of a grant. Calls that only count tokens are free and counted separately. */
export type GrantTotals = {
  usage: Usage
  /** Cost of settled and lost calls. Null if the cost of any call is unknown. */
  costMicros: number | null
  /** Reservations of open calls. */
  pendingMicros: number
  /** The worst over all calls: metered, estimated, reserved, unknown. */
  costSource: CostSource
  calls: Record<CallOutcome, number>
  tokenCounts: number
  /** Number of calls that asked for an auxiliary model. */
  helperCalls: number
  /** Number of calls that asked for another reasoning level, and the first such level. */
  levelMismatches: number
  levelAsked: RecordedCall['levelAsked']
  /** Number of answers in which the model declined. */
  modelRefusals: number
  /** Names of the models that answered, as the provider reports them. */
  modelsServed: string[]
  refusals: GrantState['refusals']
  lastFailure: LastFailure | null
  /** The budget that cut an answer short, the shared one before the grant's own. */
  cutBy: BudgetKind | null
  /** The gateway was unavailable when the program last needed it. */
  gatewayGone: boolean
  isClosed: boolean
}

type LastFailure = {
  status: number | null
  kind: FailureKind | Refusal
  at: Date
  /** A later call succeeded. */
  isRecovered: boolean
  /** The provider's message, or why the provider could not be reached. */
  message?: string | null | undefined
  /** Time from the start of the first of the consecutive failures of this kind to the end of the last. */
  lastedMs?: number | undefined
}

/** Sums up the calls of a grant. */
export function computeTotals(state: GrantState): GrantTotals {
  const generated = state.calls.filter(({ kind }) => kind === 'generate')
  const mismatches = generated.filter(({ levelAsked }) => levelAsked !== null)
  return {
    ...sumCalls(generated.filter(({ outcome }) => outcome !== 'open')),
    pendingMicros: generated.reduce((sum, call) => sum + (call.outcome === 'open' ? (call.reservedMicros ?? 0) : 0), 0),
    calls: countOutcomes(generated),
    tokenCounts: state.calls.length - generated.length,
    helperCalls: generated.filter(({ helper }) => helper !== null).length,
    levelMismatches: mismatches.length,
    levelAsked: mismatches[0]?.levelAsked ?? null,
    modelRefusals: generated.filter(({ isRefusal }) => isRefusal).length,
    modelsServed: [...new Set(generated.flatMap(({ servedModel }) => servedModel ?? []))],
    refusals: state.refusals,
    lastFailure: findLastFailure(state, generated),
    cutBy: BUDGET_KINDS.find((kind) => generated.some(({ failure }) => failure === kind)) ?? null,
    gatewayGone: generated.some((call) => call.failure === 'gateway' && !isRecoveredLater(call, generated)),
    isClosed: state.closedAt !== null,
  }
}

type CountedCall = Pick<RecordedCall, 'usage' | 'costMicros' | 'costSource'>

/** Sums up settled calls. One unknown cost makes the sum unknown. */
export const sumCalls = (calls: readonly CountedCall[]): Pick<GrantTotals, 'usage' | 'costMicros' | 'costSource'> => ({
  usage: calls.reduce((sum, { usage }) => addUsage(sum, usage), NO_USAGE),
  costMicros: calls.some(({ costMicros }) => costMicros === null)
    ? null
    : calls.reduce((sum, { costMicros }) => sum + (costMicros ?? 0), 0),
  costSource: toWorstSource(calls),
})

/** The budgets in the order in which `cutBy` names them. */
const BUDGET_KINDS: readonly BudgetKind[] = ['shared_budget', 'budget']

const COST_SOURCES_WORST_FIRST: readonly CostSource[] = ['unknown', 'reserved', 'estimated', 'metered']

const toWorstSource = (calls: readonly CountedCall[]): CostSource =>
  COST_SOURCES_WORST_FIRST.find((source) => calls.some(({ costSource }) => costSource === source)) ?? 'metered'

function countOutcomes(calls: readonly RecordedCall[]): Record<CallOutcome, number> {
  const counts: Record<CallOutcome, number> = { open: 0, succeeded: 0, failed: 0, cut: 0, lost: 0 }
  for (const { outcome } of calls) counts[outcome] += 1
  return counts
}

/** Returns true if another gateway answered a later call. */
const isRecoveredLater = (lost: RecordedCall, calls: readonly RecordedCall[]): boolean =>
  calls.some(
    ({ outcome, gatewayId, startedAt }) =>
      outcome === 'succeeded' && gatewayId !== lost.gatewayId && startedAt > lost.startedAt,
  )

function findLastFailure({ lastRefusal }: GrantState, calls: readonly RecordedCall[]): LastFailure | null {
  const failed: Omit<LastFailure, 'isRecovered'>[] = calls.flatMap(({ failure, status, settledAt, message }) =>
    failure && failure !== 'gateway' && settledAt ? [{ status, kind: failure, at: settledAt, message }] : [],
  )
  const refused = lastRefusal ? [{ status: null, kind: lastRefusal.reason, at: lastRefusal.at }] : []
  // Non-final refusals must not hide an earlier failure of the provider.
  const isRefusalIgnored = lastRefusal !== null && !isFinalRefusal(lastRefusal.reason) && failed.length > 0
  const last = [...failed, ...(isRefusalIgnored ? [] : refused)]
    .sort((one, other) => one.at.getTime() - other.at.getTime())
    .at(-1)
  if (!last) return null
  const isRecovered = calls.some(
    ({ outcome, settledAt }) => outcome === 'succeeded' && settledAt !== null && settledAt > last.at,
  )
  return { ...last, isRecovered, lastedMs: last.at.getTime() - toFailureStart(calls, last).getTime() }
}

/** Returns the start of the first call of the unbroken run of failures of the same kind that ends with `last`. */
function toFailureStart(calls: readonly RecordedCall[], last: Pick<LastFailure, 'kind' | 'at'>): Date {
  const earlier = calls.filter(({ startedAt }) => startedAt <= last.at)
  const lastOther = earlier.findLastIndex(({ failure }) => failure !== last.kind)
  return earlier[lastOther + 1]?.startedAt ?? last.at
}
