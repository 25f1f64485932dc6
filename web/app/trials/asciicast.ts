/** A recording of a terminal: the whole text, and how much of it had been written at each moment. */
export type Recording = {
  text: string
  /** In chronological order. `end` is the length of the text at that time. */
  moments: { seconds: number; end: number }[]
  seconds: number
}

/** Pauses are shortened to this many seconds. */
const PAUSE_SECONDS_MAX = 2

/** Reads an asciicast of version 2. The file is untrusted: anything unexpected is left out. */
export function parseAsciicast(cast: string): Recording {
  const parts: string[] = []
  const moments: Recording['moments'] = []
  let [end, seconds, previousSeconds] = [0, 0, 0]
  for (const line of cast.split('\n').slice(1)) {
    const event = parseEvent(line)
    if (!event) continue
    seconds += Math.min(PAUSE_SECONDS_MAX, Math.max(0, event.seconds - previousSeconds))
    previousSeconds = Math.max(previousSeconds, event.seconds)
    parts.push(event.text)
    end += event.text.length
    moments.push({ seconds, end })
  }
  return { text: parts.join(''), moments, seconds }
}

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

/** Returns the last lines that a terminal shows at a time. A carriage return starts its line again. */
export function showScreen({ text, moments }: Recording, seconds: number): string {
  const end = moments.findLast((moment) => moment.seconds <= seconds)?.end ?? 0
  const lines = text.slice(Math.max(0, end - SCREEN_LENGTH_MAX), end).split(/\r?\n/)
  return lines
    .slice(-SCREEN_LINES_MAX)
    .map((line) => line.slice(line.lastIndexOf('\r') + 1))
    .join('\n')
}
