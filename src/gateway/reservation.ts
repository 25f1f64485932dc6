import type { ReservationBounds } from './ledger.ts'
import { costMicros, type Prices } from './price.ts'
import { type Media, NO_MEDIA, NO_USAGE, type Usage } from './wire.ts'

/** Small requests can contain large media: one picture, or a document of a hundred pages. */
const PICTURE_TOKENS = 5_000
const DOCUMENT_TOKENS = 300_000

/** Upper bound of the input tokens of a request: no tokenizer makes more tokens of a text than it has bytes. */
export const inputBound = (textTokens: number, { pictures, documents }: Media = NO_MEDIA): number =>
  textTokens + pictures * PICTURE_TOKENS + documents * DOCUMENT_TOKENS

const BYTES_PER_TOKEN = 4

/** Expected tokens of a text or a request, for calls whose usage the provider never reported. */
export const estimatedTokens = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Below this many output tokens a call is not worth its input. */
const OUTPUT_TOKENS_MIN = 256
/** Longer answers are rare, also with the reasoning that precedes them. */
const OUTPUT_TOKENS_USUAL = 32_000

/** `hasLongCache`: the request asks for a cache of one hour, which has a price of its own. */
export type TokenBounds = {
  input: number
  /** Of all alternatives together, as `reasoning` is. */
  output: number
  /** Output tokens that the request sets aside for reasoning. A limit must leave room for an answer after them. */
  reasoning: number
  alternatives: number
  canLimitOutput: boolean
  hasLongCache: boolean
}

/** Null: the price of something that the call needs is unknown. */
export function reservationBounds(prices: Prices, tokens: TokenBounds): ReservationBounds | null {
  const { output, reasoning, alternatives, canLimitOutput } = tokens
  const least = canLimitOutput ? Math.min(output, reasoning + OUTPUT_TOKENS_MIN * alternatives) : output
  const usual = Math.max(least, Math.min(output, reasoning + OUTPUT_TOKENS_USUAL * alternatives))
  const mostMicros = reservationMicros(prices, tokens)
  const usualMicros = reservationMicros(prices, { ...tokens, output: usual })
  const leastMicros = reservationMicros(prices, { ...tokens, output: least })
  if (mostMicros === null || usualMicros === null || leastMicros === null) return null
  return { mostMicros, usualMicros, leastMicros }
}

type CallTokens = Pick<TokenBounds, 'input' | 'output' | 'hasLongCache'>

/** The most that a call can cost: all of its input at the highest input price, and all of its output. */
export function reservationMicros(prices: Prices, { input, output, hasLongCache }: CallTokens): number | null {
  const classes: Partial<Usage>[] = [
    { input },
    { cacheWrite5m: input },
    ...(hasLongCache ? [{ cacheWrite1h: input }] : []),
  ]
  const plain = costMicros({ ...NO_USAGE, input, output }, prices)
  if (plain === null) return null
  return Math.max(...classes.map((one) => costMicros({ ...NO_USAGE, ...one, output }, prices) ?? plain))
}

/** The output tokens of each alternative that a reservation covers. */
export function coveredOutput(prices: Prices, tokens: TokenBounds, reservedMicros: number): number {
  let [low, high] = [0, tokens.output]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    const micros = reservationMicros(prices, { ...tokens, output: middle }) ?? Number.POSITIVE_INFINITY
    if (micros <= reservedMicros) low = middle
    else high = middle - 1
  }
  return Math.floor(low / tokens.alternatives)
}
