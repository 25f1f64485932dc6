import type { Protocol } from '../harnesses/model-access.ts'
import { meterAnswer } from './body-threads.ts'
import type { HeaderValues } from './headers.ts'
import { DEFAULT_OPTIONS } from './options.ts'
import type { MeteredAnswer, UsageMeter, WireProtocol } from './wire-protocol.ts'

/** Reads the usage from an answer while it passes through the gateway. */
export type UsageTap = {
  isStream: boolean
  push(chunk: Uint8Array): void
  /** Returns true if the answer has more events than any real answer, or too many that are not JSON. */
  isFlood(): boolean
  /** Returns what is known once the answer has ended. */
  finish(): Promise<TappedAnswer>
}

/** `firstTextAt`: time of the first text in a stream. Anything before it may be hidden reasoning. */
export type TappedAnswer = MeteredAnswer & { bytes: number; isStream: boolean; firstTextAt: number | null }

/** Maximum size of a whole answer whose usage is read. */
const BODY_BYTES_MAX = 32 * 1024 * 1024
/** Maximum number of events in one answer that are not JSON objects. Each costs an exception. */
const UNREADABLE_EVENTS_MAX = 1_000

export function openUsageTap(
  wire: WireProtocol,
  headers: HeaderValues,
  eventsMax: number = DEFAULT_OPTIONS.answerEvents,
): UsageTap {
  const isStream = /^text\/event-stream\b/i.test(String(headers['content-type'] ?? ''))
  return isStream ? openStreamTap(wire.createMeter(), eventsMax) : openBodyTap(wire.protocol)
}

function openStreamTap(streamMeter: UsageMeter, eventsMax: number): UsageTap {
  let count = 0
  let unreadable = 0
  const isFlood = () => count > eventsMax || unreadable > UNREADABLE_EVENTS_MAX
  const events = readEvents((data) => {
    count += 1
    if (!isFlood() && !streamMeter.takeEvent(data)) unreadable += 1
  })
  let bytes = 0
  let firstTextAt: number | null = null
  return {
    isStream: true,
    isFlood,
    push(chunk) {
      bytes += chunk.length
      events.push(chunk)
      if (firstTextAt === null && streamMeter.read().partial.textBytes > 0) firstTextAt = performance.now()
    },
    async finish() {
      events.end()
      return { ...streamMeter.read(), bytes, isStream: true, firstTextAt }
    },
  }
}

function openBodyTap(protocol: Protocol): UsageTap {
  const chunks: Uint8Array[] = []
  let bytes = 0
  return {
    isStream: false,
    isFlood: () => false,
    push(chunk) {
      bytes += chunk.length
      if (bytes <= BODY_BYTES_MAX) chunks.push(chunk)
    },
    async finish() {
      const body = bytes <= BODY_BYTES_MAX ? Buffer.concat(chunks) : Buffer.alloc(0)
      return { ...(await meterAnswer({ bytes: body, protocol })), bytes, isStream: false, firstTextAt: null }
    },
  }
}

type EventReader = {
  push(chunk: Uint8Array): void
  /** Reads the last line. An event without the empty line that ends it is discarded. */
  end(): void
}

/** Longer events are skipped and not kept in memory. Even an event that repeats a whole answer is shorter. */
const EVENT_CHARS_MAX = 4 * 1024 * 1024

const LF = 10
const CR = 13

/** Finds the data of server-sent events in chunks that may be cut anywhere, also within a character or a line end. */
export function readEvents(onData: (data: string) => void, charsMax: number = EVENT_CHARS_MAX): EventReader {
  const decoder = new TextDecoder()
  const event = createEventCollector(onData, charsMax)
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

const DATA_PREFIX = 'data:'

/** Collects the lines of one event after another. Events without data are skipped, as the standard says. */
function createEventCollector(onData: (data: string) => void, charsMax: number) {
  let data: string[] = []
  let chars = 0
  let isTooLong = false
  const skip = (): void => {
    data = []
    isTooLong = true
  }
  const end = (): void => {
    const isEmpty = data.every((value) => value === '')
    if (!isEmpty && !isTooLong) onData(data.join('\n'))
    data = []
    chars = 0
    isTooLong = false
  }
  return {
    takeLine(line: string): void {
      if (line === '') return void end()
      if (isTooLong || !line.startsWith(DATA_PREFIX)) return
      // The standard drops one space after the colon.
      const value = line.slice(DATA_PREFIX.length).replace(/^ /, '')
      // Each line counts as one more character, so that lines without data do not fill the memory either.
      chars += value.length + 1
      if (chars > charsMax) skip()
      else data.push(value)
    },
    skip,
  }
}
