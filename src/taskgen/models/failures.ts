import type { GrantTotals } from '../../gateway/totals.ts'
import type { FailureReason } from '../../gateway/verdict.ts'
import type { StageDeferral } from '../stage-result.ts'

/** The budget of the candidate is spent. */
export type SpentBudget = { kind: 'spent'; detail: string }

type FailureTotals = Pick<GrantTotals, 'lastFailure' | 'calls'>
type ModelBudget = { budgetMicros: number; batchLeftMicros: number | null; deferrals: number }

/** Explains a missing answer. Only an exhausted candidate budget counts against the candidate. */
export function explainFailure(
  { lastFailure, calls }: FailureTotals,
  limits: ModelBudget,
): SpentBudget | StageDeferral {
  const kind = lastFailure?.isRecovered === false ? lastFailure.kind : null
  if (isBatchBudgetSpent({ lastFailure }, limits))
    return deferCall('budget', 'The budget of the batch is spent.', limits.deferrals)
  if (kind === 'budget' && calls.succeeded === 0) return deferCall('config', MODEL_TOO_EXPENSIVE, limits.deferrals)
  const spent = SPENT_MESSAGES[kind ?? 'upstream']
  if (spent !== undefined) return { kind: 'spent', detail: spent }
  const [reason, detail] = DEFERRALS[kind ?? 'upstream'] ?? GATEWAY_REFUSED
  return deferCall(reason, detail, limits.deferrals)
}

/** Returns true if the last call failed, or its answer was cut, because the budget of the batch is spent. */
export function isBatchBudgetSpent({ lastFailure }: Pick<FailureTotals, 'lastFailure'>, limits: ModelBudget): boolean {
  if (lastFailure?.isRecovered !== false) return false
  const { kind } = lastFailure
  return kind === 'shared_budget' || ((kind === 'budget' || kind === 'size') && isBatchBudgetSmaller(limits))
}

const isBatchBudgetSmaller = ({ budgetMicros, batchLeftMicros }: ModelBudget): boolean =>
  batchLeftMicros !== null && batchLeftMicros < budgetMicros

/** The first question exceeds the budget, which is due to the price of the model and not to the candidate. */
const MODEL_TOO_EXPENSIVE =
  'A single question to this model may cost more than the budget of a candidate. Choose another model.'

const SPENT_MESSAGES: Partial<Record<FailureReason, string>> = {
  budget: 'The budget of the candidate is spent.',
  calls: 'The candidate has used all of its calls.',
}

const GATEWAY_REFUSED: [StageDeferral['reason'], string] = ['config', 'The gateway refused the request.']

const DEFERRALS: Partial<Record<FailureReason, [StageDeferral['reason'], string]>> = {
  rate: ['rate_limit', 'The rate limit of the provider was exceeded.'],
  upstream: ['provider', 'The provider has an outage or cannot be reached.'],
  busy: ['rate_limit', 'There were too many concurrent calls.'],
  credential: ['credential', 'The provider rejects the key.'],
  model: ['config', 'The provider does not have the model.'],
  request: ['config', 'The provider rejected the request.'],
  price: ['config', 'The price of the model is unknown, so no budget can be enforced.'],
  expired: ['provider', 'The model did not answer in time.'],
  closed: ['provider', 'Another attempt has taken over.'],
}

const FIRST_WAIT_MS = 30_000
const WAIT_MAX_MS = 15 * 60_000
/** Reasons that need manual action; retrying sooner does not help. */
export const MANUAL_REASONS: readonly StageDeferral['reason'][] = ['credential', 'config', 'budget']

/** Defers a call. The wait doubles each time, up to 15 minutes. */
export const deferCall = (reason: StageDeferral['reason'], detail: string, deferrals: number): StageDeferral => ({
  kind: 'deferred',
  reason,
  detail,
  retryAfterMs: MANUAL_REASONS.includes(reason)
    ? WAIT_MAX_MS
    : Math.min(FIRST_WAIT_MS * 2 ** Math.min(deferrals, 20), WAIT_MAX_MS),
})
