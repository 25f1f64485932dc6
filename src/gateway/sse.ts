export type EventReader = {
  push(chunk: Uint8Array): void
  /** Reads the last line. An event that no empty line has ended is discarded. */
  end(): void
}

/** Longer events are skipped and not kept in memory. Even an event that repeats a whole answer is shorter. */
const EVENT_CHARS_MAX = 4 * 1024 * 1024

const LF = 10
const CR = 13

/**
 * Finds the data of server-sent events in chunks that may be cut anywhere, also within a character or a line end. Events
 * without data are skipped, as the standard says.
 */
export function readEvents(onData: (data: string) => void, charsMax: number = EVENT_CHARS_MAX): EventReader {
  const decoder = new TextDecoder()
  const event = collectEvent(onData, charsMax)
  let pending: string[] = []
  let pendingChars = 0
  let endsInCr = false

  /** Takes all lines that have an end, and returns the rest. */
  const takeLines = (text: string): string => {
    let from = 0
    for (let at = findLineEnd(text, 0); at < text.length; at = findLineEnd(text, from)) {
      const isCr = text.charCodeAt(at) === CR
      // The other half of the line end may come with the next chunk.
      if (isCr && at === text.length - 1) break
      event.takeLine(text.slice(from, at))
      from = at + (isCr && text.charCodeAt(at + 1) === LF ? 2 : 1)
    }
    return text.slice(from)
  }
  const take = (text: string): void => {
    // A line that has no end yet is searched once, however many chunks it comes in.
    if (!endsInCr && !text.includes('\n') && !text.includes('\r')) {
      pendingChars += text.length
      if (pendingChars <= charsMax) pending.push(text)
      return
    }
    if (pendingChars > charsMax) event.skip()
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

/** Returns the position of the next line end, or the length of the text. */
function findLineEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === LF || code === CR) return at
  }
  return text.length
}

/** Collects the lines of one event after another. */
function collectEvent(onData: (data: string) => void, charsMax: number) {
  let data: string[] = []
  let chars = 0
  let isTooLong = false
  const skip = (): void => {
    data = []
    isTooLong = true
  }
  const end = (): void => {
    if (chars > data.length && !isTooLong) onData(data.join('\n'))
    if (chars > 0) data = []
    chars = 0
    isTooLong = false
  }
  return {
    takeLine(line: string): void {
      if (line === '') return void end()
      if (isTooLong || !line.startsWith('data:')) return
      const value = line.slice(line[5] === ' ' ? 6 : 5)
      // Each line counts, so that lines without data do not fill the memory either.
      chars += value.length + 1
      if (chars > charsMax) skip()
      else data.push(value)
    },
    skip,
  }
}
