import type { Protocol } from '../harnesses/model-access.ts'
import { meter } from './body-threads.ts'
import type { HeaderValues } from './headers.ts'
import { DEFAULT_OPTIONS } from './options.ts'
import { readEvents } from './sse.ts'
import type { MeteredAnswer, UsageMeter, WireProtocol } from './wire-protocol.ts'

/** Reads the usage from an answer while it passes through the gateway. */
export type UsageTap = {
  isStream: boolean
  push(chunk: Uint8Array): void
  /** Tells whether the answer has more events than any real answer, or too many that are not JSON. */
  isFlood(): boolean
  /** Returns what is known once the answer has ended. */
  finish(): Promise<TappedAnswer>
}

/** `firstTextAt`: time of the first text in a stream. Anything before it may be hidden reasoning. */
export type TappedAnswer = MeteredAnswer & { bytes: number; isStream: boolean; firstTextAt: number | null }

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
      return { ...(await meter({ bytes: body, protocol })), bytes, isStream: false, firstTextAt: null }
    },
  }
}
