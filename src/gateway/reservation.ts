import { costMicros, type Prices } from './price.ts'
import { type Media, NO_MEDIA, NO_USAGE, type Usage } from './wire.ts'

/** Few texts have more tokens than this. */
const BYTES_PER_TOKEN = 3
/** A few bytes may be a large picture in one colour, or a hundred pages that are all the same. */
const PICTURE_TOKENS = 5_000
const DOCUMENT_TOKENS = 300_000

export const inputEstimate = (bodyBytes: number, { pictures, documents }: Media = NO_MEDIA): number =>
  Math.ceil(bodyBytes / BYTES_PER_TOKEN) + pictures * PICTURE_TOKENS + documents * DOCUMENT_TOKENS

/** What a call can cost at most: all its input at the dearest price that input can have, and all its output. */
export function reservationMicros(prices: Prices, tokens: { input: number; output: number }): number | null {
  const { input, output } = tokens
  const ways: Partial<Usage>[] = [{ input }, { cacheWrite5m: input }, { cacheWrite1h: input }]
  const plain = costMicros({ ...NO_USAGE, input, output }, prices)
  if (plain === null) return null
  return Math.max(...ways.map((way) => costMicros({ ...NO_USAGE, ...way, output }, prices) ?? plain))
}
