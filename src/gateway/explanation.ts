import type { LimitKind } from '../sandboxes/sandbox.ts'
import type { TrialRecord } from '../trials/record.ts'
import type { FailureKind, Refusal } from './ledger.ts'
import { findContextExcess } from './provider-message.ts'
import type { GrantTotals } from './totals.ts'

/** The facts about a finished trial that explain its result. */
export type ExplainedTrial = Pick<TrialRecord, 'state' | 'reward' | 'rewards' | 'error' | 'limit' | 'timings'> & {
  class: string
  steps: readonly Pick<TrialRecord['steps'][number], 'agent' | 'failedTests'>[]
}

/**
 * Returns one sentence on why a trial has no full score, or null if it has one. `totals` is null if the harness uses no
 * model. Quotes are untrusted text that was made printable when it was recorded.
 */
export function explainTrial(trial: ExplainedTrial, totals: GrantTotals | null): string | null {
  if (trial.state === 'passed') return null
  if (trial.class === 'budget_stop') return 'The budget of the trial was spent before the agent had finished.'
  const failure = findDecisiveFailure(trial, totals)
  if (failure) return explainCallFailure(failure)
  if (trial.class === 'agent_timeout') return explainTimeout(trial, totals)
  if (trial.limit !== null) return LIMIT_SENTENCES[trial.limit]
  if (trial.class === 'refusal') return `The model declined to answer ${formatTimes(totals?.modelRefusals ?? 1)}.`
  if (trial.error !== null) return toFirstLine(trial.error)
  const sentence = `${explainExit(trial)}${explainTests(trial)}`
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}`
}

type CallFailure = Pick<NonNullable<GrantTotals['lastFailure']>, 'kind' | 'status' | 'message' | 'lastedMs'>

/**
 * Returns the last failed call if it explains the trial. A failed sandbox explains itself. An agent that was stopped
 * breaks off its own call, so its last call only counts if the provider sent a message.
 */
function findDecisiveFailure({ class: trialClass }: ExplainedTrial, totals: GrantTotals | null) {
  const failure = totals?.lastFailure
  if (!failure || failure.isRecovered || failure.kind === 'closed' || failure.kind === 'expired') return undefined
  if (['sandbox_error', 'verifier_error'].includes(trialClass)) return undefined
  return failure.message == null && ['agent_timeout', 'limit'].includes(trialClass) ? undefined : failure
}

/** Explains a failed call, with the provider's own words if it sent any. */
export function explainCallFailure({ kind, status, message, lastedMs }: CallFailure): string {
  if (message == null) return FAILURE_SENTENCES[kind]
  const excess = findContextExcess(message)
  if (excess)
    return `A request of ${excess.tokens} tokens exceeds the model's context of ${excess.limit} tokens: ${quote(message)}.`
  if (status == null)
    return `${NO_ANSWER_CAUSES[kind] ?? 'The provider did not answer'}: ${message.replace(/\.$/, '')}.`
  return `${describeFailure(kind, status, lastedMs)} (${status}): ${quote(message)}.`
}

const NO_ANSWER_CAUSES: Partial<Record<FailureKind | Refusal, string>> = {
  upstream: 'The provider could not be reached',
  interrupted: 'The provider could not be reached for a short time',
  request: 'The call was not answered',
}

function describeFailure(kind: FailureKind | Refusal, status: number, lastedMs: number | undefined): string {
  if (kind === 'rate' || kind === 'crowded') return `The provider limited the rate of calls${formatLasting(lastedMs)}`
  if (kind === 'upstream' || kind === 'interrupted') return `The provider failed${formatLasting(lastedMs)}`
  if (kind === 'credential') return CREDENTIAL_CAUSES[status] ?? 'The provider rejected the key'
  return FAILURE_SENTENCES[kind].replace(/\.$/, '')
}

/** Causes other than a wrong key for which a provider refuses a credential, by status. */
const CREDENTIAL_CAUSES: Record<number, string> = {
  402: "The provider refused the call because the account's credit is used up",
  403: 'The provider does not allow this key to make the call',
}

/** Formats a duration as ` for 3 minutes`. Returns an empty text for durations that round to 0 minutes. */
function formatLasting(ms = 0): string {
  const minutes = Math.round(ms / 60_000)
  return minutes < 1 ? '' : ` for ${minutes === 1 ? '1 minute' : `${minutes} minutes`}`
}

function explainTimeout({ steps, timings }: ExplainedTrial, totals: GrantTotals | null): string {
  const seconds = steps.find(({ agent }) => agent?.limit === 'seconds')?.agent?.seconds ?? timings.agent
  const reached = `The agent reached its time limit after ${Math.round(seconds)} s`
  if (!totals) return `${reached}.`
  const { succeeded, failed, cut, lost, open } = totals.calls
  if (succeeded + failed + cut + lost + open === 0) return `${reached} and never called its model.`
  return `${reached}, while its model had produced ${totals.usage.output.toLocaleString('en-US')} tokens in ${formatCalls(succeeded + cut + open)}.`
}

const formatCalls = (count: number): string => (count === 1 ? '1 call' : `${count} calls`)
const formatTimes = (count: number): string => (count === 1 ? 'once' : `${count} times`)

/** Sentences for limits of the agent's sandbox. */
const LIMIT_SENTENCES: Record<LimitKind, string> = {
  seconds: 'The agent reached its time limit.',
  memory: 'The agent ran out of memory.',
  pids: 'The agent started more processes than its sandbox allows.',
  disk: 'The agent filled the disk of its sandbox.',
  output: 'The agent printed more output than the limit.',
}

function explainExit({ class: trialClass, steps }: ExplainedTrial): string {
  if (trialClass !== 'agent_exit') return ''
  const code = steps.find(({ agent }) => agent && agent.code !== 0)?.agent?.code
  return code === undefined || code === null
    ? 'The agent was killed, and '
    : `The agent ended with exit code ${code}, and `
}

const TESTS_SHOWN_MAX = 3

function explainTests({ steps, reward, rewards }: ExplainedTrial): string {
  const names = steps.flatMap(({ failedTests }) => failedTests ?? [])
  if (names.length > 0) {
    const more = names.length - TESTS_SHOWN_MAX
    const shown = names.slice(0, TESTS_SHOWN_MAX).join(', ')
    return `${names.length === 1 ? '1 test' : `${names.length} tests`} failed: ${shown}${more > 0 ? ` and ${more} more` : ''}.`
  }
  const parts = Object.entries(rewards).filter(([key, value]) => key !== 'reward' && value < 1)
  if (parts.length > 0)
    return `the reward is ${reward ?? 0}: ${parts.map(([key, value]) => `${key} ${value}`).join(', ')}.`
  return `the tests of the task gave the reward ${reward ?? 0}.`
}

/** Returns the first line of an error as a sentence. */
export const toFirstLine = (text: string): string => text.trim().split('\n', 1)[0]?.replace(/:$/, '.') ?? ''

const quote = (message: string): string => `"${message.replaceAll('"', "'")}"`

/** Sentences for failures without a message of the provider. */
export const FAILURE_SENTENCES: Record<FailureKind | Refusal, string> = {
  credential: 'The provider rejected the key.',
  rate: 'The provider limits the rate of calls.',
  crowded: 'The provider limits the rate of calls.',
  upstream: 'The provider is unavailable.',
  interrupted: 'The provider failed during a call of the program and recovered soon.',
  gateway: 'The gateway failed.',
  busy: 'The program made too many concurrent calls.',
  model: 'The provider does not have this model, or the program requested another one.',
  request: 'The provider rejected the request of the program.',
  closed: 'The program made a call after its trial had ended.',
  expired: 'The program made a call after its trial had ended.',
  calls: 'The trial has used all of its calls.',
  budget: "The trial's budget is too small for one call.",
  shared_budget: 'The budget of the comparison cut this trial off. It runs again when the comparison is resumed.',
  price: 'The price of the model is unknown, so no budget can be enforced.',
  hosted: 'The program requested a server-side tool, which runs outside the sandbox.',
  surcharge: 'The program requested something that is billed separately.',
  token: 'The program did not send its token.',
  size: 'The request of the program was too large.',
  malformed: 'The program sent an invalid request.',
  path: 'The program requested an unknown path.',
}
