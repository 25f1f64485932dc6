import { openModel } from '../../gateway/client/open-model.ts'
import { closeGrant, openGrant, readGrant } from '../../gateway/grants.ts'
import type { CostSource, Ledger, Terms } from '../../gateway/ledger.ts'
import type { GrantTotals } from '../../gateway/totals.ts'
import type { FailureReason } from '../../gateway/verdict.ts'
import { ModelCallFailed, type ModelReply, type ModelRequest } from '../../harnesses/conversation.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import type { StageDeferral } from '../stage-result.ts'

/** Answer of a model whose calls have spent the budget of the candidate. */
export type SpentBudget = { kind: 'spent'; detail: string }

/** A prompt without tools. */
export type ModelQuestion = Pick<ModelRequest, 'system' | 'messages'> & { shape: NonNullable<ModelRequest['shape']> }

type ModelAnswer = { kind: 'answered'; reply: ModelReply } | SpentBudget | StageDeferral

/** Total cost according to the ledger. Null if the cost of some call is unknown. */
export type ModelBill = { costMicros: number | null; costSource: CostSource; calls: number; modelsServed: string[] }

/** Access to a model for one candidate, through the gateway, until it is closed or its budget is spent. */
export type StageModel = AsyncDisposable & {
  catalogId: string
  provider: string
  /** Model name in requests. */
  name: string
  /** Throws only on abort or on an internal error. */
  ask(question: ModelQuestion, signal: AbortSignal): Promise<ModelAnswer>
  bill(): Promise<ModelBill>
  /** Closes the grant, after which nothing is spent. Idempotent. */
  close(): Promise<ModelBill>
}

/** Limits of all questions together. `outputMicros`: maximum cost of one answer. `durationMs`: from opening to closing. */
export type ModelLimits = { budgetMicros: number; outputMicros: number; callsMax: number; durationMs: number }

export type OpenModelInput = ModelLimits & {
  workspaceId: string
  /**
   * Grantee: candidate and purpose. Its earlier grants are closed, so that an abandoned attempt spends nothing more.
   */
  grantee: string
  credentialId: string
  access: Omit<ModelAccess, 'token'>
  terms: Terms
  /** Id of the budget that all models of the batch share. */
  sharedBudget?: string | undefined
  /** Remaining budget of the batch. Null: unlimited. */
  batchLeftMicros: number | null
  /** Number of earlier deferrals; each waits longer. */
  deferrals: number
}

/**
 * Limits of the author model for one candidate. A call is sent only if its input and its maximum output fit into the
 * remaining budget.
 */
export const AUTHOR_LIMITS: ModelLimits = {
  budgetMicros: 100_000,
  outputMicros: 50_000,
  callsMax: 6,
  durationMs: 10 * 60_000,
}
/** Limits of the verifier model for one candidate. */
export const VERIFIER_LIMITS: ModelLimits = {
  budgetMicros: 400_000,
  outputMicros: 75_000,
  callsMax: 12,
  durationMs: 30 * 60_000,
}
/** Limits of one recipe, which serves many candidates. */
export const RECIPE_LIMITS: ModelLimits = {
  budgetMicros: 300_000,
  outputMicros: 75_000,
  callsMax: 4,
  durationMs: 10 * 60_000,
}

type GatewayAccess = { ledger: Ledger; gatewayUrl: string }

export async function openStageModel(
  { ledger, gatewayUrl }: GatewayAccess,
  input: OpenModelInput,
): Promise<StageModel> {
  const { workspaceId, grantee, credentialId, callsMax, durationMs } = input
  const budgetMicros = computeBudget(input)
  const outputTokens = computeOutputTokens(input)
  const grant = await openGrant(ledger, {
    workspaceId,
    grantee,
    credentialId,
    callsMax,
    budgetMicros,
    sharedBudget: input.sharedBudget,
    // Only some protocols send the client's limit. In the others the gateway reserves the model's own maximum, or sends the
    // limit that the budget covers.
    terms: input.terms,
    expiresAt: new Date(Date.now() + durationMs),
  })
  const client = openModel({ ...input.access, outputTokens, token: grant.token }, { url: gatewayUrl, ...grant })
  const deadline = AbortSignal.timeout(durationMs)
  const close = async (): Promise<ModelBill> => {
    await client[Symbol.asyncDispose]()
    return toBill(await closeGrant(ledger, grant.id))
  }
  return {
    catalogId: input.terms.catalogId,
    provider: input.terms.provider,
    name: input.terms.model,
    async ask(question, signal) {
      try {
        const reply = await client.ask({ ...question, signal: AbortSignal.any([signal, deadline]) })
        const totals = await readGrant(ledger, grant.id)
        // An answer that was cut off by the budget of the batch is not the candidate's fault.
        if (isBatchBudgetSpent(totals, input)) return explainFailure(totals, input)
        return checkServedModel(reply, totals, input)
      } catch (error) {
        signal.throwIfAborted()
        if (deadline.aborted) return deferCall('provider', 'The model did not answer in time.', input.deferrals)
        if (!(error instanceof ModelCallFailed)) throw error
        return explainFailure(await readGrant(ledger, grant.id), input)
      }
    },
    bill: async () => toBill(await readGrant(ledger, grant.id)),
    close,
    async [Symbol.asyncDispose]() {
      await close()
    },
  }
}

/** Defers the call if the provider answered with another model than the requested one. */
function checkServedModel(
  reply: ModelReply,
  { modelsServed }: GrantTotals,
  { terms, deferrals }: OpenModelInput,
): ModelAnswer {
  const otherModel = modelsServed.find((served) => !isServedAs(terms.model, served))
  if (otherModel === undefined) return { kind: 'answered', reply }
  return deferCall('config', `The model ${otherModel} answered instead of ${terms.model}.`, deferrals)
}

/**
 * Returns the budget of the grant, or null for a model without prices, for which none can be enforced. Limits on tokens,
 * calls and time still apply, and a batch with a budget requires prices.
 */
const computeBudget = ({ budgetMicros, batchLeftMicros, terms }: OpenModelInput): number | null =>
  terms.prices === null && batchLeftMicros === null ? null : Math.min(budgetMicros, batchLeftMicros ?? budgetMicros)

const OUTPUT_TOKENS_MAX = 16_000
const OUTPUT_TOKENS_MIN = 2_000

/** Returns the maximum length of an answer: what `outputMicros` pays for, within bounds, and the tokens for thinking. */
function computeOutputTokens({ terms, outputMicros }: OpenModelInput): number {
  const microsPerToken = terms.prices === null ? 0 : Number(terms.prices.output)
  const affordableTokens = microsPerToken > 0 ? Math.floor(outputMicros / microsPerToken) : OUTPUT_TOKENS_MAX
  const answerTokens = Math.min(OUTPUT_TOKENS_MAX, Math.max(OUTPUT_TOKENS_MIN, affordableTokens))
  const thinkingTokens = 'budgetTokens' in terms.wireLevel ? terms.wireLevel.budgetTokens : 0
  return Math.min(terms.outputTokens, answerTokens + thinkingTokens)
}

const toBill = ({ costMicros, costSource, calls, modelsServed }: GrantTotals): ModelBill => ({
  costMicros,
  costSource,
  modelsServed,
  calls: Object.values(calls).reduce((sum, count) => sum + count, 0),
})

/** Suffixes that providers add to a model name: a date, or `latest`. Any other suffix denotes another model. */
const PROVIDER_SUFFIX = /^[-@:](?:latest|preview|\d{3,8}|\d{4}-\d{2}-\d{2}|\d{2}-\d{2})(?:-(?:preview|\d{2,8}))*$/
const LATEST_SUFFIX = /[-@:](?:latest|preview)$/

/** Returns true if a served model name denotes the requested model. */
function isServedAs(requestedName: string, servedName: string): boolean {
  const [requested, served] = [removeVendor(requestedName), removeVendor(servedName)]
  if (served === requested) return true
  const base = requested.replace(LATEST_SUFFIX, '')
  return served === base || (served.startsWith(base) && PROVIDER_SUFFIX.test(served.slice(base.length)))
}

/** Returns the name without the vendor prefix that routers add. */
const removeVendor = (name: string): string => name.toLowerCase().slice(name.lastIndexOf('/') + 1)

export type NamedModel = { provider: string; name: string }

/** Returns true for models of the same vendor or family, which tend to make and overlook the same mistakes. */
export const isSameFamily = (one: NamedModel, other: NamedModel): boolean =>
  vendorOf(one) === vendorOf(other) || familyOf(one.name) === familyOf(other.name)

const vendorOf = ({ provider, name }: NamedModel): string =>
  name.includes('/') ? (name.split('/').at(-2) ?? '').toLowerCase() : provider.toLowerCase()

/** Returns the name of the model family: `claude` for `claude-sonnet-5`. */
const familyOf = (name: string): string => removeVendor(name).split(/[^a-z]/)[0] || removeVendor(name)

type FailureTotals = Pick<GrantTotals, 'lastFailure' | 'calls'>
type ModelBudget = { budgetMicros: number; batchLeftMicros: number | null; deferrals: number }

/** Explains a missing answer. Only an exhausted candidate budget counts against the candidate. */
function explainFailure({ lastFailure, calls }: FailureTotals, limits: ModelBudget): SpentBudget | StageDeferral {
  const kind = lastFailure?.isRecovered === false ? lastFailure.kind : undefined
  if (isBatchBudgetSpent({ lastFailure }, limits))
    return deferCall('budget', 'The budget of the batch is spent.', limits.deferrals)
  if (kind === 'budget' && calls.succeeded === 0) return deferCall('config', MODEL_TOO_EXPENSIVE, limits.deferrals)
  const spentMessage = kind && SPENT_MESSAGES[kind]
  if (spentMessage !== undefined) return { kind: 'spent', detail: spentMessage }
  // The provider did not answer at all if no failure was recorded.
  const [reason, detail] = DEFERRALS[kind ?? 'upstream'] ?? GATEWAY_REFUSED
  return deferCall(reason, detail, limits.deferrals)
}

/** Returns true if the last call failed, or its answer was cut, because the budget of the batch is spent. */
function isBatchBudgetSpent({ lastFailure }: Pick<FailureTotals, 'lastFailure'>, limits: ModelBudget): boolean {
  if (lastFailure?.isRecovered !== false) return false
  const { kind } = lastFailure
  return kind === 'shared_budget' || ((kind === 'budget' || kind === 'size') && isBatchBudgetSmaller(limits))
}

const isBatchBudgetSmaller = ({ budgetMicros, batchLeftMicros }: ModelBudget): boolean =>
  batchLeftMicros !== null && batchLeftMicros < budgetMicros

/** Detail of a deferral because the first question exceeds the budget: the price of the model causes it. */
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
const deferCall = (reason: StageDeferral['reason'], detail: string, deferrals: number): StageDeferral => ({
  kind: 'deferred',
  reason,
  detail,
  retryAfterMs: MANUAL_REASONS.includes(reason)
    ? WAIT_MAX_MS
    : Math.min(FIRST_WAIT_MS * 2 ** Math.min(deferrals, 20), WAIT_MAX_MS),
})
