import { openModel } from '../../gateway/client/open-model.ts'
import { closeGrant, openGrant, readGrant } from '../../gateway/grants.ts'
import type { CostSource, Ledger, Terms } from '../../gateway/ledger.ts'
import type { GrantTotals } from '../../gateway/totals.ts'
import { type Asking, ModelSilent, type Reply } from '../../harnesses/conversation.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import type { StageDeferral } from '../stage-result.ts'
import { deferred, type Spent, silenceOf } from './failures.ts'
import { isServedAs } from './served-model.ts'

/** What is put to a model that writes or checks: never a tool. */
export type Question = Pick<Asking, 'system' | 'messages'> & { shape: NonNullable<Asking['shape']> }

type Answered = { kind: 'answered'; reply: Reply } | Spent | StageDeferral

/** What it all cost, as the ledger has it. Null: of some call nobody knows. */
export type Bill = { costMicros: number | null; costSource: CostSource; calls: number; modelsServed: string[] }

/** A model for one candidate, through the gateway, until it is closed or has spent what it may. */
export type Model = AsyncDisposable & {
  catalogId: string
  provider: string
  /** The name on the wire. */
  name: string
  /** Throws only when the signal says so, or when something of ours is broken. */
  ask(question: Question, signal: AbortSignal): Promise<Answered>
  bill(): Promise<Bill>
  /** Nothing is spent after this. Harmless twice. */
  close(): Promise<Bill>
}

/** For all that is asked, together. `outputMicros`: what one answer may cost. */
export type ModelLimits = { budgetMicros: number; outputMicros: number; callsMax: number; wallMs: number }

export type ModelWish = ModelLimits & {
  workspaceId: string
  /** For whom and what for. Its earlier grants are closed: an attempt that was given up spends no more. */
  subject: string
  credentialId: string
  access: Omit<ModelAccess, 'token'>
  terms: Terms
  /** Of its batch. Null: it has no limit. */
  batchLeftMicros: number | null
  /** How often this was deferred before: each time it waits longer. */
  deferrals: number
}

/**
 * What may be spent on one candidate; a recipe serves many. `outputMicros` is what one answer may cost: a call must fit
 * into the budget before it is made, with all that it asks.
 */
export const AUTHOR_LIMITS: ModelLimits = {
  budgetMicros: 100_000,
  outputMicros: 50_000,
  callsMax: 6,
  wallMs: 10 * 60_000,
}
export const VERIFIER_LIMITS: ModelLimits = {
  budgetMicros: 400_000,
  outputMicros: 75_000,
  callsMax: 12,
  wallMs: 30 * 60_000,
}
export const RECIPE_LIMITS: ModelLimits = {
  budgetMicros: 300_000,
  outputMicros: 75_000,
  callsMax: 4,
  wallMs: 10 * 60_000,
}

type Gateway = { ledger: Ledger; gatewayUrl: string }

export async function openStageModel({ ledger, gatewayUrl }: Gateway, wish: ModelWish): Promise<Model> {
  const { workspaceId, subject, credentialId, callsMax, wallMs } = wish
  const budgetMicros = budgetOf(wish)
  const outputTokens = outputTokensOf(wish)
  const grant = await openGrant(ledger, {
    ...{ workspaceId, subject, credentialId, callsMax, budgetMicros },
    terms: { ...wish.terms, outputTokens },
    expiresAt: new Date(Date.now() + wallMs),
  })
  const client = openModel({ ...wish.access, outputTokens, token: grant.token }, { url: gatewayUrl, ...grant })
  const deadline = AbortSignal.timeout(wallMs)
  const close = async (): Promise<Bill> => {
    await client[Symbol.asyncDispose]()
    return billOf(await closeGrant(ledger, grant.id))
  }
  return {
    catalogId: wish.terms.catalogId,
    provider: wish.terms.provider,
    name: wish.terms.model,
    async ask(question, signal) {
      try {
        const reply = await client.ask({ ...question, signal: AbortSignal.any([signal, deadline]) })
        return judged(reply, await readGrant(ledger, grant.id), wish)
      } catch (error) {
        signal.throwIfAborted()
        if (deadline.aborted) return deferred('provider', 'The model did not answer in time.', wish.deferrals)
        if (!(error instanceof ModelSilent)) throw error
        return silenceOf(await readGrant(ledger, grant.id), wish)
      }
    },
    bill: async () => billOf(await readGrant(ledger, grant.id)),
    close,
    [Symbol.asyncDispose]: async () => void (await close()),
  }
}

function judged(reply: Reply, { modelsServed }: GrantTotals, { terms, deferrals }: ModelWish): Answered {
  const other = modelsServed.find((served) => !isServedAs(terms.model, served))
  if (other === undefined) return { kind: 'answered', reply }
  return deferred('config', `${terms.model} was asked, and ${other} answered.`, deferrals)
}

/** Without a price no sum can be held. Tokens, calls and time are, and a batch that has a limit needs prices. */
const budgetOf = ({ budgetMicros, batchLeftMicros, terms }: ModelWish): number | null =>
  terms.prices === null && batchLeftMicros === null ? null : Math.min(budgetMicros, batchLeftMicros ?? budgetMicros)

const OUTPUT_TOKENS_MAX = 16_000
const OUTPUT_TOKENS_MIN = 2_000

function outputTokensOf({ terms, outputMicros }: ModelWish): number {
  const price = terms.prices === null ? 0 : Number(terms.prices.output)
  const bought = price > 0 ? Math.floor(outputMicros / price) : OUTPUT_TOKENS_MAX
  const thought = 'budgetTokens' in terms.wireLevel ? terms.wireLevel.budgetTokens : 0
  const wanted = Math.min(OUTPUT_TOKENS_MAX, Math.max(OUTPUT_TOKENS_MIN, bought)) + thought
  return Math.min(terms.outputTokens, wanted)
}

const billOf = ({ costMicros, costSource, calls, modelsServed }: GrantTotals): Bill => ({
  ...{ costMicros, costSource, modelsServed },
  calls: Object.values(calls).reduce((sum, count) => sum + count, 0),
})
