import {
  type BudgetKind,
  type Call,
  type CostSource,
  type FailureKind,
  type GrantState,
  isFinal,
  type Outcome,
  type Refusal,
} from './ledger.ts'
import { NO_USAGE, type Usage } from './wire.ts'

/** What a grant came to. Calls that only count tokens are free, and counted apart. */
export type GrantTotals = {
  usage: Usage
  /** What settled and lost calls cost. Null: the cost of some call is unknown. */
  costMicros: number | null
  /** Reservations of open calls. */
  pendingMicros: number
  /** The worst over all calls: metered, estimated, reserved, unknown. */
  costSource: CostSource
  calls: Record<Outcome, number>
  tokenCounts: number
  /** Calls under another model's name. */
  helperCalls: number
  /** Calls that asked for another level, and the first of them. */
  levelMismatches: number
  levelAsked: Call['levelAsked']
  /** Answers in which the model declined. */
  modelRefusals: number
  /** As the provider calls them. */
  modelsServed: string[]
  refusals: GrantState['refusals']
  lastFailure: Failure | null
  /** The budget that cut an answer short, the shared one before the grant's own. */
  cutBy: BudgetKind | null
  /** Our own gateway was not there when it was last needed. */
  gatewayGone: boolean
  isClosed: boolean
}

/** `isRecovered`: a later call succeeded. */
type Failure = { status: number | null; kind: FailureKind | Refusal; at: Date; isRecovered: boolean }

export function totals(state: GrantState): GrantTotals {
  const generated = state.calls.filter(({ kind }) => kind === 'generate')
  const mismatches = generated.filter(({ levelAsked }) => levelAsked !== null)
  return {
    ...callTotals(generated.filter(({ outcome }) => outcome !== 'open')),
    pendingMicros: generated.reduce((sum, call) => sum + (call.outcome === 'open' ? (call.reservedMicros ?? 0) : 0), 0),
    calls: countOutcomes(generated),
    tokenCounts: state.calls.length - generated.length,
    helperCalls: generated.filter(({ helper }) => helper !== null).length,
    levelMismatches: mismatches.length,
    levelAsked: mismatches[0]?.levelAsked ?? null,
    modelRefusals: generated.filter(({ isRefusal }) => isRefusal).length,
    modelsServed: [...new Set(generated.flatMap(({ servedModel }) => servedModel ?? []))],
    refusals: state.refusals,
    lastFailure: lastFailure(state, generated),
    cutBy: BUDGETS.find((kind) => generated.some(({ failure }) => failure === kind)) ?? null,
    gatewayGone: generated.some((call) => call.failure === 'gateway' && !isMadeGood(call, generated)),
    isClosed: state.closedAt !== null,
  }
}

type CountedCall = Pick<Call, 'usage' | 'costMicros' | 'costSource'>

/** Sums of calls that are settled. One unknown cost makes the sum unknown. */
export const callTotals = (
  calls: readonly CountedCall[],
): Pick<GrantTotals, 'usage' | 'costMicros' | 'costSource'> => ({
  usage: calls.reduce((sum, { usage }) => addUsage(sum, usage), NO_USAGE),
  costMicros: calls.some(({ costMicros }) => costMicros === null)
    ? null
    : calls.reduce((sum, { costMicros }) => sum + (costMicros ?? 0), 0),
  costSource: worst(calls),
})

const addUsage = (one: Usage, other: Usage): Usage => ({
  input: one.input + other.input,
  cacheRead: one.cacheRead + other.cacheRead,
  cacheWrite5m: one.cacheWrite5m + other.cacheWrite5m,
  cacheWrite1h: one.cacheWrite1h + other.cacheWrite1h,
  output: one.output + other.output,
  reasoning: one.reasoning + other.reasoning,
})

const BUDGETS: readonly BudgetKind[] = ['shared_budget', 'budget']

const SOURCES: readonly CostSource[] = ['metered', 'estimated', 'reserved', 'unknown']

const worst = (calls: readonly CountedCall[]): CostSource =>
  SOURCES[Math.max(0, ...calls.map(({ costSource }) => SOURCES.indexOf(costSource)))] ?? 'metered'

function countOutcomes(calls: readonly Call[]): Record<Outcome, number> {
  const counts: Record<Outcome, number> = { open: 0, succeeded: 0, failed: 0, cut: 0, lost: 0 }
  for (const { outcome } of calls) counts[outcome] += 1
  return counts
}

/** Another gateway answered later. Whatever the dead one answered, it answered before. */
const isMadeGood = (lost: Call, calls: readonly Call[]): boolean =>
  calls.some(
    ({ outcome, gatewayId, startedAt }) =>
      outcome === 'succeeded' && gatewayId !== lost.gatewayId && startedAt > lost.startedAt,
  )

function lastFailure({ lastRefusal }: GrantState, calls: readonly Call[]): Failure | null {
  const failed = calls.flatMap(({ failure, status, settledAt }) =>
    failure && failure !== 'gateway' && settledAt ? [{ status, kind: failure, at: settledAt }] : [],
  )
  const refused = lastRefusal ? [{ status: null, kind: lastRefusal.reason, at: lastRefusal.at }] : []
  // Programs ask for all sorts of things in passing. That must not hide what the provider did.
  const isInPassing = lastRefusal !== null && !isFinal(lastRefusal.reason) && failed.length > 0
  const last = [...failed, ...(isInPassing ? [] : refused)]
    .sort((one, other) => one.at.getTime() - other.at.getTime())
    .at(-1)
  if (!last) return null
  const isRecovered = calls.some(
    ({ outcome, settledAt }) => outcome === 'succeeded' && settledAt !== null && settledAt > last.at,
  )
  return { ...last, isRecovered }
}
