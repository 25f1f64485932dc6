import type { Refusal, ReservationBounds, ReservationRefused, Terms } from './ledger.ts'
import { type CallPrices, computeCostMicros } from './price.ts'
import { type Media, NO_MEDIA, NO_USAGE, type Usage } from './wire-protocol.ts'

/** Upper bound for a document, which can be far larger than its bytes: it may have hundreds of pages. */
const DOCUMENT_TOKENS = 300_000

/** Context window assumed for a model whose window is unknown: no catalog model has a larger one. */
const CONTEXT_TOKENS_UNKNOWN = 2_000_000

/**
 * Returns the most input tokens that the provider accepts. `passes`: how often it reads the input. A window that a
 * workspace declared counts only if it is larger than that of every known model.
 */
export function computeInputMax({ contextTokens = 0, isContextDeclared }: ContextWindow, passes: number): number {
  const isReliable = contextTokens > 0 && !isContextDeclared
  return passes * (isReliable ? contextTokens : Math.max(contextTokens, CONTEXT_TOKENS_UNKNOWN))
}

type ContextWindow = Pick<Terms, 'contextTokens' | 'isContextDeclared'>

/**
 * Returns an upper bound of the input tokens of a request. `textTokens`: upper bound for its text. The number of bytes is
 * one, because no tokenizer makes more tokens of a text than it has bytes.
 */
export const computeInputBound = (textTokens: number, { pictureTokens, documents }: Media = NO_MEDIA): number =>
  textTokens + pictureTokens + documents * DOCUMENT_TOKENS

const BYTES_PER_TOKEN = 4

/** Returns the expected number of tokens of a text or a request, for calls whose usage the provider did not report. */
export const estimateTokens = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Minimum number of output tokens for which a call is worth its input. */
const OUTPUT_TOKENS_MIN = 256
/** Number of output tokens that few answers exceed, besides the reasoning that the request sets aside. */
const OUTPUT_TOKENS_USUAL = 32_000

/** Upper bounds of the tokens of a call. */
export type TokenBounds = {
  input: number
  /** Output tokens of all alternatives together. `reasoning` also covers all alternatives. */
  output: number
  /** Output tokens that the request sets aside for reasoning. A limit must leave room for an answer after them. */
  reasoning: number
  alternatives: number
  canLimitOutput: boolean
  /** The request asks for a cache lifetime of one hour, which has a price of its own. */
  hasLongCache: boolean
}

/** Computes the possible reservations of a call. Returns null if a price that the call needs is unknown. */
export function computeReservationBounds(prices: CallPrices, tokens: TokenBounds): ReservationBounds | null {
  const { output, reasoning, alternatives, canLimitOutput } = tokens
  const least = canLimitOutput ? Math.min(output, reasoning + OUTPUT_TOKENS_MIN * alternatives) : output
  const usual = Math.max(least, Math.min(output, reasoning + OUTPUT_TOKENS_USUAL * alternatives))
  const mostMicros = computeReservationMicros(prices, tokens)
  const usualMicros = computeReservationMicros(prices, { ...tokens, output: usual })
  const leastMicros = computeReservationMicros(prices, { ...tokens, output: least })
  if (mostMicros === null || usualMicros === null || leastMicros === null) return null
  return { mostMicros, usualMicros, leastMicros }
}

/** Input tokens of a request that every comparison should be able to pay for. */
const ORDINARY_INPUT_TOKENS = 128_000
/** A conversation that grows by more than this factor between two calls is not ordinary. */
const ORDINARY_GROWTH = 2

/**
 * Explains why a shared budget does not cover a call. The budget is to blame (`shared_budget`: the trial is not scored
 * and runs again) only if it no longer covers an ordinary call of this trial. The other causes are the size of
 * the request (`size`) and the trial's own open calls (`busy`), which a trial could use to cause its own retry.
 */
export function explainSharedRefusal(
  { reason, shared }: ReservationRefused,
  { leastMicros }: ReservationBounds,
  ordinaryMicros: number,
): Extract<Refusal, 'shared_budget' | 'size' | 'busy'> | ReservationRefused['reason'] {
  if (!shared) return reason
  const ordinaryMaxMicros = Math.max(ordinaryMicros, ORDINARY_GROWTH * shared.largestCallMicros)
  if (leastMicros <= shared.freeMicros) return 'busy'
  if (leastMicros <= ordinaryMaxMicros) return 'shared_budget'
  return shared.freeMicros >= ordinaryMaxMicros || leastMicros > shared.totalMicros ? 'size' : 'shared_budget'
}

/** Returns the least that the call would cost if its input were of ordinary size. */
export const computeOrdinaryMicros = (prices: CallPrices, tokens: TokenBounds): number =>
  computeReservationBounds(prices, { ...tokens, input: Math.min(tokens.input, ORDINARY_INPUT_TOKENS) })?.leastMicros ??
  0

type CallTokens = Pick<TokenBounds, 'input' | 'output' | 'hasLongCache'>

/** Returns the maximum cost of a call: all of its input at the highest known input price, and all of its output. */
export function computeReservationMicros(
  prices: CallPrices,
  { input, output, hasLongCache }: CallTokens,
): number | null {
  const uncachedMicros = computeCostMicros({ ...NO_USAGE, input, output }, prices)
  if (uncachedMicros === null) return null
  const cachedInputs: Partial<Usage>[] = [
    { cacheRead: input },
    { cacheWrite5m: input },
    ...(hasLongCache ? [{ cacheWrite1h: input }] : []),
  ]
  const cachedMicros = cachedInputs
    .map((cached) => computeCostMicros({ ...NO_USAGE, ...cached, output }, prices))
    .filter((micros) => micros !== null)
  return Math.max(uncachedMicros, ...cachedMicros)
}

/** Finds the output tokens per alternative that a reservation covers, by binary search: prices may have tiers. */
export function computeCoveredOutput(prices: CallPrices, tokens: TokenBounds, reservedMicros: number): number {
  let [low, high] = [0, tokens.output]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    const micros = computeReservationMicros(prices, { ...tokens, output: middle }) ?? Number.POSITIVE_INFINITY
    if (micros <= reservedMicros) low = middle
    else high = middle - 1
  }
  return Math.floor(low / tokens.alternatives)
}
