/** A recording of a terminal: the whole text, and how much of it had been written at each time. */
export type Recording = {
  text: string
  /** Times at which text was written, in order. `textLength` is the length of the text at that time. */
  writes: { seconds: number; textLength: number }[]
  /** Duration of the recording with shortened pauses. */
  seconds: number
}

/** Longer pauses are shortened to this many seconds. */
const PAUSE_SECONDS_MAX = 2

/** Parses an asciicast of version 2. The file is untrusted: lines that are not output events are skipped. */
export function parseAsciicast(cast: string): Recording {
  const parts: string[] = []
  const writes: Recording['writes'] = []
  let [textLength, seconds, previousSeconds] = [0, 0, 0]
  const [, ...eventLines] = cast.split('\n')
  for (const line of eventLines) {
    const event = parseEvent(line)
    if (!event) continue
    seconds += Math.min(PAUSE_SECONDS_MAX, Math.max(0, event.seconds - previousSeconds))
    previousSeconds = Math.max(previousSeconds, event.seconds)
    parts.push(event.text)
    textLength += event.text.length
    writes.push({ seconds, textLength })
  }
  return { text: parts.join(''), writes, seconds }
}

/** Parses an output event: `[seconds, "o", text]`. */
function parseEvent(line: string): { seconds: number; text: string } | undefined {
  try {
    const [seconds, kind, text]: unknown[] = JSON.parse(line)
    return typeof seconds === 'number' && kind === 'o' && typeof text === 'string' ? { seconds, text } : undefined
  } catch {
    return undefined
  }
}

const SCREEN_LENGTH_MAX = 20_000
const SCREEN_LINES_MAX = 200

/** Returns the last lines that the terminal showed at a time. Text after a carriage return replaces its line. */
export function renderScreen({ text, writes }: Recording, seconds: number): string {
  const textLength = writes.findLast((write) => write.seconds <= seconds)?.textLength ?? 0
  const lines = text.slice(Math.max(0, textLength - SCREEN_LENGTH_MAX), textLength).split(/\r?\n/)
  return lines
    .slice(-SCREEN_LINES_MAX)
    .map((line) => line.slice(line.lastIndexOf('\r') + 1))
    .join('\n')
}
