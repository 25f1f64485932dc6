import type { OutcomeClass, TrialRecord } from '../trials/record.ts'
import { explainCallFailure, FAILURE_SENTENCES } from './explanation.ts'
import type { FailureKind, Refusal } from './ledger.ts'
import type { GrantTotals } from './totals.ts'

/** The result of a trial with a model. */
export type ModelVerdict =
  | { kind: 'judged'; state: TrialRecord['state']; class: ModelTrialClass; error: string | null }
  /**
   * The provider rejected the key, or the comparison's budget cut the trial off. The trial is not scored and runs
   * again later.
   */
  | { kind: 'stopped'; reason: 'credential' | 'budget'; message: string }

/** Classes of trials, including those that only trials with a model have. */
export type ModelTrialClass = OutcomeClass | 'budget_stop' | 'refusal' | 'provider_error'

type EndedTrial = Pick<TrialRecord, 'state' | 'class' | 'error'>
export type FailureReason = FailureKind | Refusal

/** Outages of the provider that may pass. None of them can be caused by a program. */
const OUTAGE_REASONS: readonly FailureReason[] = ['rate', 'upstream']
/** Failures that either the provider or the program caused. They excuse a trial until its last attempt. */
const AMBIGUOUS_FAILURES: readonly FailureReason[] = ['crowded', 'interrupted']
/** Classes of agents that ended by themselves. */
const SELF_ENDED_CLASSES: readonly OutcomeClass[] = ['verified', 'agent_exit']

/**
 * Decides the result of a trial from its ledger, because programs do not report failures reliably. `isLastAttempt`: the
 * trial is not retried.
 */
export function decideVerdict(
  record: EndedTrial,
  totals: GrantTotals,
  { isLastAttempt = false }: { isLastAttempt?: boolean } = {},
): ModelVerdict {
  const failure = totals.lastFailure?.isRecovered === false ? totals.lastFailure.kind : null
  const stop = findStop(failure, totals)
  if (stop) return stop
  if (record.state === 'errored') return { kind: 'judged', ...pickResult(record) }
  if (totals.gatewayGone)
    return excludedVerdict('provider_error', 'The gateway failed, and the program could not reach its model.')
  if (totals.calls.succeeded === 0)
    return { kind: 'judged', ...judgeWithoutAnswer(record, failure, totals, isLastAttempt) }
  // Applies to passes too: keeping only passes would favor providers that fail.
  if (failure !== null && isExcuse(failure, isLastAttempt))
    return excludedVerdict('provider_error', explain(totals, `The provider failed: ${failure}.`))
  return { kind: 'judged', ...pickResult(record), class: decideScoredClass(record, failure, totals) }
}

/** Applies a verdict to the record of a trial. The reward of an overturned pass is reset. */
export function applyVerdict<R extends EndedTrial & Pick<TrialRecord, 'reward' | 'rewards'>>(
  record: R,
  { state, class: trialClass, error }: Omit<Extract<ModelVerdict, { kind: 'judged' }>, 'kind'>,
): Omit<R, 'class'> & { class: ModelTrialClass } {
  const changed = { ...record, state, class: trialClass, error }
  if (state === 'errored') return { ...changed, reward: null, rewards: {} }
  return state === 'failed' && record.state === 'passed' ? { ...changed, reward: 0, rewards: { reward: 0 } } : changed
}

/** Returns a stop if no other trial of the comparison could run now either. */
function findStop(failure: FailureReason | null, totals: GrantTotals): ModelVerdict | undefined {
  if (failure === 'credential')
    return { kind: 'stopped', reason: 'credential', message: explain(totals, FAILURE_SENTENCES.credential) }
  if (failure !== 'shared_budget' && totals.cutBy !== 'shared_budget') return undefined
  return { kind: 'stopped', reason: 'budget', message: FAILURE_SENTENCES.shared_budget }
}

/** Explains the last failure in the provider's own words, or with `otherwise` if it sent none. */
const explain = ({ lastFailure }: GrantTotals, otherwise: string): string =>
  lastFailure?.message == null ? otherwise : explainCallFailure(lastFailure)

const pickResult = ({ state, class: trialClass, error }: EndedTrial) => ({ state, class: trialClass, error })

function decideScoredClass(
  record: EndedTrial,
  failure: FailureReason | null,
  { modelRefusals, cutBy }: GrantTotals,
): ModelTrialClass {
  if (!SELF_ENDED_CLASSES.includes(record.class)) return record.class
  if (failure === 'budget' || cutBy === 'budget') return 'budget_stop'
  if (failure === 'calls') return 'limit'
  return modelRefusals > 0 && record.state === 'failed' ? 'refusal' : record.class
}

/**
 * Judges a trial whose model never answered. It scores 0, whatever the verifier reports, unless an external cause is
 * proven: a program that sends nothing, or nothing that can be answered, could otherwise choose which trials count.
 */
function judgeWithoutAnswer(
  record: EndedTrial,
  failure: FailureReason | null,
  totals: GrantTotals,
  isLastAttempt: boolean,
) {
  const { calls, lastFailure } = totals
  const isOutage = failure === null ? calls.cut + calls.lost > 0 : isExcuse(failure, isLastAttempt)
  if (isOutage) return excluded('provider_error', explain(totals, 'The provider never returned a complete answer.'))
  // A status means that the gateway's own request found the model missing too. Refusals by the gateway have no status.
  const isUnknownModel = failure === 'model' && lastFailure?.status != null
  if (failure !== null && (failure === 'price' || isUnknownModel))
    return excluded('operator_error', explain(totals, FAILURE_SENTENCES[failure]))
  const error = failure === null ? 'The program never called its model.' : explain(totals, FAILURE_SENTENCES[failure])
  return { state: 'failed' as const, class: decideScoredClass(record, failure, totals), error }
}

const isExcuse = (failure: FailureReason, isLastAttempt: boolean): boolean =>
  OUTAGE_REASONS.includes(failure) || (!isLastAttempt && AMBIGUOUS_FAILURES.includes(failure))

const excluded = (trialClass: ModelTrialClass, error: string) => ({
  state: 'errored' as const,
  class: trialClass,
  error,
})

const excludedVerdict = (trialClass: ModelTrialClass, error: string): ModelVerdict => ({
  kind: 'judged',
  ...excluded(trialClass, error),
})
