import type { MockAnswer, MockUsage, Speech } from './conversation.ts'

export const BYTES_PER_TOKEN = 4

/**
 * Returns the billed usage of an incomplete stream (client disconnected or connection lost): the entire input, and the
 * output in the events that were sent.
 */
export function billedTokens(speech: Speech, answer: MockAnswer, sentEvents: readonly string[]): MockUsage {
  const pieces = speech.pieces(answer).values()
  let next = pieces.next()
  let bytes = 0
  for (const event of sentEvents) {
    if (next.done || !event.includes(JSON.stringify(next.value).slice(1, -1))) continue
    bytes += Buffer.byteLength(next.value)
    next = pieces.next()
  }
  return { ...answer.usage, output: Math.min(answer.usage.output, Math.ceil(bytes / BYTES_PER_TOKEN)), reasoning: 0 }
}
