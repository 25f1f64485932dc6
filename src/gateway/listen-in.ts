import type { Protocol } from '../harnesses/model-access.ts'
import { meter } from './body-threads.ts'
import type { Headers } from './headers.ts'
import { DEFAULTS } from './options.ts'
import { readEvents } from './sse.ts'
import type { Meter, Metered, Wire } from './wire.ts'

/** Hears an answer as it passes. */
export type Ear = {
  isStream: boolean
  hear(chunk: Uint8Array): void
  /** More events came than any answer has, or too many that are no JSON. */
  isFlood(): boolean
  /** When all has been heard, or no more comes. */
  read(): Promise<Heard>
}

/** `firstTextAt`: when a stream produced its first text. What passed before it may be hidden reasoning. */
export type Heard = Metered & { bytes: number; isStream: boolean; firstTextAt: number | null }

const WHOLE_BYTES_MAX = 32 * 1024 * 1024

/** Events of one answer that may be something else than JSON objects. Each costs an exception. */
const UNREADABLE_EVENTS_MAX = 1_000

export function listenIn(wire: Wire, headers: Headers, eventsMax: number = DEFAULTS.answerEvents): Ear {
  const isStream = /^text\/event-stream\b/i.test(String(headers['content-type'] ?? ''))
  return isStream ? streamEar(wire.newMeter(), eventsMax) : wholeEar(wire.protocol)
}

function streamEar(own: Meter, eventsMax: number): Ear {
  let count = 0
  let unreadable = 0
  const isFlood = () => count > eventsMax || unreadable > UNREADABLE_EVENTS_MAX
  const events = readEvents((data) => {
    count += 1
    if (!isFlood() && !own.event(data)) unreadable += 1
  })
  let bytes = 0
  let firstTextAt: number | null = null
  return {
    isStream: true,
    isFlood,
    hear(chunk) {
      bytes += chunk.length
      events.push(chunk)
      if (firstTextAt === null && own.read().partial.textBytes > 0) firstTextAt = performance.now()
    },
    async read() {
      events.end()
      return { ...own.read(), bytes, isStream: true, firstTextAt }
    },
  }
}

function wholeEar(protocol: Protocol): Ear {
  const chunks: Uint8Array[] = []
  let bytes = 0
  return {
    isStream: false,
    isFlood: () => false,
    hear(chunk) {
      bytes += chunk.length
      if (bytes <= WHOLE_BYTES_MAX) chunks.push(chunk)
    },
    async read() {
      const body = bytes <= WHOLE_BYTES_MAX ? Buffer.concat(chunks) : Buffer.alloc(0)
      return { ...(await meter({ bytes: body, protocol })), bytes, isStream: false, firstTextAt: null }
    },
  }
}
