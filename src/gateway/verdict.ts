import type { TrialClass, TrialRecord } from '../trials/record.ts'
import type { FailureKind, Refusal } from './ledger.ts'
import type { GrantTotals } from './totals.ts'

/** How a trial with a model ended. */
export type Verdict =
  | { kind: 'judged'; state: TrialRecord['state']; class: ModelTrialClass; error: string | null }
  /** The provider refuses the key, or the comparison's budget cut the trial off. It is not scored, and runs again later. */
  | { kind: 'stopped'; reason: 'credential' | 'budget'; message: string }

/** What only a model can bring about, besides all else. */
export type ModelTrialClass = TrialClass | 'budget_stop' | 'refusal' | 'provider_error'

type Ended = Pick<TrialRecord, 'state' | 'class' | 'error'>
type Kind = FailureKind | Refusal

/** The provider had no answer, and asking again might get one. Nothing that a program can bring about is among them. */
const OUTAGES: readonly Kind[] = ['rate', 'upstream']
/** What it may have been a program's doing, or not. It is given the benefit, until it has none left. */
const DOUBTS: readonly Kind[] = ['crowded']
/** How an agent ends that could still say something about it. */
const OWN_ENDS: readonly TrialClass[] = ['verified', 'agent_exit']

/**
 * Programs lie about their ends, and some do not know them. The ledger has seen what happened. `isLast`: the trial is not
 * tried again, whatever this says.
 */
export function verdictOf(record: Ended, totals: GrantTotals, { isLast = false }: { isLast?: boolean } = {}): Verdict {
  const last = totals.lastFailure?.isRecovered === false ? totals.lastFailure.kind : null
  const stop = stopOf(last, totals)
  if (stop) return stop
  if (record.state === 'errored') return { kind: 'judged', ...ended(record) }
  if (totals.gatewayGone) return unscored('provider_error', 'The gateway died, and the program had no model.')
  if (totals.calls.succeeded === 0) return { kind: 'judged', ...unheard(record, last, totals) }
  // Whether or not it passes so far: to keep only the passes would flatter every provider that breaks.
  if (last !== null && (OUTAGES.includes(last) || (!isLast && DOUBTS.includes(last))))
    return unscored('provider_error', `The provider gave up: ${last}.`)
  return { kind: 'judged', ...ended(record), class: scoredClass(record, last, totals) }
}

/** The record of a trial with the verdict on its model. Only a pass that stands keeps its reward. */
export function applyVerdict<R extends Ended & Pick<TrialRecord, 'reward' | 'rewards'>>(
  record: R,
  { state, class: word, error }: Omit<Extract<Verdict, { kind: 'judged' }>, 'kind'>,
): Omit<R, 'class'> & { class: ModelTrialClass } {
  const changed = { ...record, state, class: word, error }
  if (state === 'errored') return { ...changed, reward: null, rewards: {} }
  return state === 'failed' && record.state === 'passed' ? { ...changed, reward: 0, rewards: { reward: 0 } } : changed
}

/** The reason to run the trial again later, if there is one: no other trial of the comparison would fare better now. */
function stopOf(last: Kind | null, { cutBy }: GrantTotals): Verdict | undefined {
  if (last === 'credential') return { kind: 'stopped', reason: 'credential', message: WHY.credential }
  if (last !== 'shared_budget' && cutBy !== 'shared_budget') return undefined
  return { kind: 'stopped', reason: 'budget', message: WHY.shared_budget }
}

const ended = ({ state, class: word, error }: Ended) => ({ state, class: word, error })

function scoredClass(record: Ended, last: Kind | null, { modelRefusals, cutBy }: GrantTotals): ModelTrialClass {
  if (!OWN_ENDS.includes(record.class)) return record.class
  if (last === 'budget' || cutBy === 'budget') return 'budget_stop'
  if (last === 'calls') return 'limit'
  return modelRefusals > 0 && record.state === 'failed' ? 'refusal' : record.class
}

/**
 * The model never answered. Only a proven cause outside of the program excludes the trial: a program that sends nothing,
 * or nothing that could be answered, would otherwise choose the trials that count. It scores 0, whatever the verifier
 * says, because nothing of its model was judged.
 */
function unheard(record: Ended, last: Kind | null, totals: GrantTotals) {
  const { calls, lastFailure } = totals
  const isOutage = last === null ? calls.cut + calls.lost > 0 : [...OUTAGES, ...DOUBTS].includes(last)
  if (isOutage) return spoiled('provider_error', 'The provider never gave a whole answer.')
  // The gateway has tried the model itself before it says so; its own refusals, without a status, are the program's.
  const isUnknownModel = last === 'model' && lastFailure?.status != null
  if (last !== null && (last === 'price' || isUnknownModel)) return spoiled('operator_error', WHY[last])
  const error = last === null ? 'The program never asked its model.' : WHY[last]
  return { state: 'failed' as const, class: scoredClass(record, last, totals), error }
}

const spoiled = (word: ModelTrialClass, error: string) => ({ state: 'errored' as const, class: word, error })

const unscored = (word: ModelTrialClass, error: string): Verdict => ({ kind: 'judged', ...spoiled(word, error) })

/** What an operator can do something about. */
const WHY: Record<Kind, string> = {
  credential: 'The provider did not take the key.',
  rate: 'The provider was asked too often.',
  crowded: 'The provider was asked too often.',
  upstream: 'The provider is broken, or cannot be reached.',
  gateway: 'The gateway died.',
  busy: 'The program asked too much at once.',
  model: 'The provider has no such model, or the program asked for another.',
  request: 'The provider found fault with what the program asked.',
  closed: 'The program asked after its time.',
  expired: 'The program asked after its time.',
  calls: 'The trial may make no call.',
  budget: "The trial's budget is too small for one call.",
  shared_budget: 'The budget of the comparison cut this trial off. It runs again when the comparison is resumed.',
  price: 'Nobody knows what the model costs, so no budget can be held.',
  hosted: 'The program asked for what only the provider could do, outside of the sandbox.',
  surcharge: 'The program asked for something that has a price of its own.',
  token: 'The program did not send its token.',
  size: 'The first request was too large.',
  malformed: 'The program sent something that is no request.',
  path: 'The program asked for something that the gateway does not have.',
}
