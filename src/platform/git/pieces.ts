/**
 * Splits a stream at a separator and yields the pieces as latin1, one char per byte. Truncates pieces at `bytesMax`, so
 * that untrusted input cannot exhaust memory.
 */
export async function* splitStream(
  stream: AsyncIterable<Buffer>,
  separator: number,
  bytesMax: number,
): AsyncGenerator<string, void, undefined> {
  let partial = ''
  for await (const chunk of stream) {
    let from = 0
    for (let end = chunk.indexOf(separator); end !== -1; end = chunk.indexOf(separator, from)) {
      yield append(partial, chunk, from, end, bytesMax)
      partial = ''
      from = end + 1
    }
    partial = append(partial, chunk, from, chunk.length, bytesMax)
  }
  if (partial !== '') yield partial
}

function append(partial: string, chunk: Buffer, from: number, to: number, bytesMax: number): string {
  const remaining = bytesMax - partial.length
  return remaining <= 0 ? partial : partial + chunk.toString('latin1', from, Math.min(to, from + remaining))
}

export const LINE_END = 10
export const NUL = 0

/** Decodes UTF-8 that was read as latin1. Invalid bytes become replacement characters. */
export const decodeUtf8 = (bytes: string): string =>
  // Fast path: most text is ASCII.
  /^[\x20-\x7e\s]*$/.test(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString('utf8')

/** End of the year 9999, in Unix seconds. Most date formats cannot represent later dates. */
const SECONDS_END = 253_402_300_800

/** Parses the untrusted Unix timestamp of a commit. Invalid timestamps become 0, as in git. */
export function parseSeconds(text: string | undefined): number {
  const seconds = Number(text)
  return seconds > 0 && seconds < SECONDS_END ? Math.floor(seconds) : 0
}
