/**
 * What lies between two separators, one at a time, byte for byte as latin1. Of a piece that is longer than
 * `bytesMax` the rest is dropped: no stranger decides how much memory we need.
 */
export async function* pieces(
  stream: AsyncIterable<Buffer>,
  separator: number,
  bytesMax: number,
): AsyncGenerator<string, void, undefined> {
  let held = ''
  for await (const chunk of stream) {
    let from = 0
    for (let at = chunk.indexOf(separator); at !== -1; at = chunk.indexOf(separator, from)) {
      yield joined(held, chunk, from, at, bytesMax)
      held = ''
      from = at + 1
    }
    held = joined(held, chunk, from, chunk.length, bytesMax)
  }
  if (held !== '') yield held
}

function joined(held: string, chunk: Buffer, from: number, to: number, bytesMax: number): string {
  const room = bytesMax - held.length
  return room <= 0 ? held : held + chunk.toString('latin1', from, Math.min(to, from + room))
}

export const LINE_END = 10
export const NUL = 0

/** Bytes that were read as latin1, as the text that they are. What is no UTF-8 shows as a mark. */
export const textOf = (bytes: string): string =>
  // Most of it is plain, and then there is nothing to do.
  /^[\x20-\x7e\s]*$/.test(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString('utf8')
