export type EventReader = {
  push(chunk: Uint8Array): void
  /** What no empty line has ended is no event. */
  end(): void
}

/** Nobody sends an event this long; whoever does is not understood, and not kept in memory either. */
const EVENT_CHARS_MAX = 8 * 1024 * 1024

const LINE_END = /\r\n|\n|\r/g

/** Finds the data of server-sent events in chunks that are cut anywhere, also in the middle of a letter or a line end. */
export function readEvents(onData: (data: string) => void, charsMax: number = EVENT_CHARS_MAX): EventReader {
  const decoder = new TextDecoder()
  let pending: string[] = []
  let pendingChars = 0
  let endsInCr = false
  let data: string[] = []
  let chars = 0
  let isTooLong = false

  const endEvent = () => {
    if (data.length > 0 && !isTooLong) onData(data.join('\n'))
    data = []
    chars = 0
    isTooLong = false
  }
  const takeLine = (line: string) => {
    if (line === '') return endEvent()
    if (!line.startsWith('data:')) return
    const value = line.slice(line[5] === ' ' ? 6 : 5)
    chars += value.length
    if (chars > charsMax) isTooLong = true
    else data.push(value)
  }
  const takeLines = (text: string) => {
    let from = 0
    for (const match of text.matchAll(LINE_END)) {
      // Its other half may come with the next chunk.
      if (match[0] === '\r' && match.index === text.length - 1) break
      takeLine(text.slice(from, match.index))
      from = match.index + match[0].length
    }
    return text.slice(from)
  }
  const take = (text: string) => {
    // A line that has no end yet is looked through once, however many chunks it comes in.
    if (!/[\r\n]/.test(text) && !endsInCr) {
      pendingChars += text.length
      if (pendingChars <= charsMax) pending.push(text)
      return
    }
    if (pendingChars > charsMax) isTooLong = true
    const rest = takeLines(pending.join('') + text)
    pending = rest === '' ? [] : [rest]
    pendingChars = rest.length
    endsInCr = rest.endsWith('\r')
  }
  return {
    push: (chunk) => take(decoder.decode(chunk, { stream: true })),
    end: () => {
      take(decoder.decode())
      if (endsInCr) take('\n')
    },
  }
}
