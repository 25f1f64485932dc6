import type { Headers } from './headers.ts'
import { readEvents } from './sse.ts'
import type { Json, Meter, Metered, Wire } from './wire.ts'

/** Hears an answer as it passes. */
export type Ear = {
  isStream: boolean
  hear(chunk: Uint8Array): void
  /** When all has been heard, or no more comes. */
  read(): Heard
}

/** `firstTextAt`: when a stream produced its first text. What passed before it may be hidden reasoning. */
export type Heard = Metered & { bytes: number; isStream: boolean; firstTextAt: number | null }

const WHOLE_BYTES_MAX = 32 * 1024 * 1024

export function listenIn(wire: Wire, headers: Headers): Ear {
  const meter = wire.newMeter()
  const isStream = /^text\/event-stream\b/i.test(String(headers['content-type'] ?? ''))
  return isStream ? streamEar(meter) : wholeEar(meter)
}

function streamEar(meter: Meter): Ear {
  const events = readEvents((data) => meter.event(data))
  let bytes = 0
  let firstTextAt: number | null = null
  return {
    isStream: true,
    hear(chunk) {
      bytes += chunk.length
      events.push(chunk)
      if (firstTextAt === null && meter.read().partial.textBytes > 0) firstTextAt = performance.now()
    },
    read() {
      events.end()
      return { ...meter.read(), bytes, isStream: true, firstTextAt }
    },
  }
}

function wholeEar(meter: Meter): Ear {
  const chunks: Uint8Array[] = []
  let bytes = 0
  return {
    isStream: false,
    hear(chunk) {
      bytes += chunk.length
      if (bytes <= WHOLE_BYTES_MAX) chunks.push(chunk)
    },
    read() {
      const json = bytes <= WHOLE_BYTES_MAX ? jsonOf(chunks) : undefined
      if (json !== undefined) meter.body(json)
      return { ...meter.read(), bytes, isStream: false, firstTextAt: null }
    },
  }
}

function jsonOf(chunks: Uint8Array[]): Json | undefined {
  try {
    return JSON.parse(Buffer.concat(chunks).toString())
  } catch {
    return undefined
  }
}
