import { hash } from 'node:crypto'
import type { Refusal, ReservationBounds, ReservationRefused, Terms } from './ledger.ts'
import { type CallPrices, computeCostMicros } from './price.ts'
import { type Media, NO_MEDIA, NO_USAGE, type Usage } from './wire-protocol.ts'

/** Upper bounds for media, which can be far larger than their bytes: one picture, or a document of a hundred pages. */
const PICTURE_TOKENS = 5_000
const DOCUMENT_TOKENS = 300_000

/** Context window assumed for a model whose window is unknown: no catalog model has a larger one. */
const CONTEXT_TOKENS_UNKNOWN = 2_000_000

/**
 * Returns the most input tokens that the provider accepts. `passes`: how often it reads the input. A window that a
 * workspace declared counts only if it is larger than that of every known model.
 */
export const computeInputMax = ({ contextTokens, isContextDeclared }: ContextWindow, passes: number): number =>
  Math.max(contextTokens ?? 0, contextTokens && !isContextDeclared ? 0 : CONTEXT_TOKENS_UNKNOWN) * passes

type ContextWindow = Pick<Terms, 'contextTokens' | 'isContextDeclared'>

/** Returns an upper bound of the input tokens of a request. No tokenizer makes more tokens of a text than it has bytes. */
export const computeInputBound = (textTokens: number, { pictures, documents }: Media = NO_MEDIA): number =>
  textTokens + pictures * PICTURE_TOKENS + documents * DOCUMENT_TOKENS

const BYTES_PER_TOKEN = 4

/** Returns the expected number of tokens of a text or a request, for calls whose usage the provider did not report. */
export const estimateTokens = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Least number of output tokens for which a call is worth its input. */
const OUTPUT_TOKENS_MIN = 256
/** Longer answers are rare, also with the reasoning that precedes them. */
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

/** Returns null if a price that the call needs is unknown. */
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
 * and runs again) only if it no longer covers an ordinary call of this trial. Otherwise the size of the request is
 * (`size`), or the trial's own open calls are (`busy`): otherwise a trial could cause its own retry.
 */
export function explainSharedRefusal(
  { reason, shared }: ReservationRefused,
  { leastMicros }: ReservationBounds,
  ordinaryMicros: number,
): Extract<Refusal, 'shared_budget' | 'size' | 'busy'> | ReservationRefused['reason'] {
  if (!shared) return reason
  const ordinary = Math.max(ordinaryMicros, ORDINARY_GROWTH * shared.largestCallMicros)
  if (leastMicros <= shared.freeMicros) return 'busy'
  if (leastMicros <= ordinary) return 'shared_budget'
  return shared.freeMicros >= ordinary || leastMicros > shared.totalMicros ? 'size' : 'shared_budget'
}

/** Returns the least that the call would cost if its input were of ordinary size. */
export const computeOrdinaryMicros = (prices: CallPrices, tokens: TokenBounds): number =>
  computeReservationBounds(prices, { ...tokens, input: Math.min(tokens.input, ORDINARY_INPUT_TOKENS) })?.leastMicros ??
  0

type CallTokens = Pick<TokenBounds, 'input' | 'output' | 'hasLongCache'>

/** Returns the maximum cost of a call: all of its input at the highest input price, and all of its output. */
export function computeReservationMicros(
  prices: CallPrices,
  { input, output, hasLongCache }: CallTokens,
): number | null {
  const classes: Partial<Usage>[] = [
    { input },
    { cacheWrite5m: input },
    ...(hasLongCache ? [{ cacheWrite1h: input }] : []),
  ]
  const plain = computeCostMicros({ ...NO_USAGE, input, output }, prices)
  if (plain === null) return null
  return Math.max(...classes.map((one) => computeCostMicros({ ...NO_USAGE, ...one, output }, prices) ?? plain))
}

/** Returns the output tokens per alternative that a reservation covers. */
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

/**
 * Tightens the upper bound of input tokens with counts from the provider. Conversations grow: most of a request was part
 * of an earlier one, whose tokens are known. Only new bytes count as one token each.
 */
export type InputMemory = {
  bound(grantId: string, body: Uint8Array): { tokens: number; digest: BodyDigest }
  /** Stores the input tokens, cached ones included, that the provider billed for the body with this digest. */
  learn(grantId: string, digest: BodyDigest, inputTokens: number): void
}

/** Hashes of the blocks of a body, counted from its start and from its end. */
type BodyDigest = { bytes: number; fromStart: string[]; fromEnd: string[] }
type KnownBody = { digest: BodyDigest; tokens: number }

const BLOCK_BYTES = 1024
/** Larger bodies are not hashed, because that would block other calls. */
const HASHED_BYTES_MAX = 4 * 1024 * 1024
const GRANTS_MAX = 1000
/** Agents with subagents hold several conversations at once. */
const BODIES_MAX = 4
/** A body with more bytes per token consists mostly of data that the provider ignores, and predicts nothing. */
const BYTES_PER_TOKEN_MAX = 6
/** Extra tokens where known and new text meet. */
const SEAM_TOKENS = 64

export function openInputMemory(): InputMemory {
  const known = new Map<string, KnownBody[]>()
  return {
    bound(grantId, body) {
      const digest = digestBody(body)
      const bounds = (known.get(grantId) ?? []).map(
        (one) => one.tokens + countNewBytes(one.digest, digest) + SEAM_TOKENS,
      )
      return { tokens: Math.min(digest.bytes, ...bounds), digest }
    },
    learn(grantId, digest, tokens) {
      if (digest.fromStart.length === 0 || digest.bytes > tokens * BYTES_PER_TOKEN_MAX) return
      const bodies = [{ digest, tokens }, ...(known.get(grantId) ?? [])].slice(0, BODIES_MAX)
      known.delete(grantId)
      known.set(grantId, bodies)
      const [oldest] = known.keys()
      if (known.size > GRANTS_MAX && oldest !== undefined) known.delete(oldest)
    },
  }
}

function digestBody(body: Uint8Array): BodyDigest {
  const count = body.length > HASHED_BYTES_MAX ? 0 : Math.floor(body.length / BLOCK_BYTES)
  const blocks = Array.from({ length: count }, (_, index) => index * BLOCK_BYTES)
  const hashAt = (start: number) => hash('sha256', body.subarray(start, start + BLOCK_BYTES), 'base64').slice(0, 16)
  return {
    bytes: body.length,
    fromStart: blocks.map(hashAt),
    fromEnd: blocks.map((offset) => hashAt(body.length - offset - BLOCK_BYTES)),
  }
}

/** Counts the bytes of a body that are not part of the known one. */
function countNewBytes(known: BodyDigest, body: BodyDigest): number {
  const most = Math.min(known.fromStart.length, body.fromStart.length)
  const start = commonLength(known.fromStart, body.fromStart, most)
  const end = commonLength(known.fromEnd, body.fromEnd, most - start)
  return body.bytes - (start + end) * BLOCK_BYTES
}

function commonLength(one: readonly string[], other: readonly string[], most: number): number {
  const differing = one.slice(0, most).findIndex((block, index) => block !== other[index])
  return differing < 0 ? most : differing
}
