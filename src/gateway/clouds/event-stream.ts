import { Transform } from 'node:stream'
import { EventStreamCodec } from '@smithy/core/event-streams'
import type { JsonObject } from '../../harnesses/json.ts'
import { parseObject, textOf } from '../protocols/fields.ts'
import type { WireProtocol } from '../wire-protocol.ts'

/** Converts an event stream of AWS to server-sent events. A damaged frame ends the stream with an error. */
export function decodeEventStream(wire: Pick<WireProtocol, 'formatError'>): Transform {
  let chunks: Buffer[] = []
  let bytes = 0
  let needed = PRELUDE_BYTES
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      chunks.push(chunk)
      bytes += chunk.length
      try {
        if (bytes >= needed) this.push(takeFrames().join(''))
        done()
      } catch (error) {
        done(error instanceof Error ? error : new Error('Invalid frame in an event stream', { cause: error }))
      }
    },
  })

  /** Takes all whole frames. The bytes of a long frame are joined once, when all of them have arrived. */
  function takeFrames(): string[] {
    let pending = Buffer.concat(chunks)
    const events: string[] = []
    for (;;) {
      needed = pending.length < PRELUDE_BYTES ? PRELUDE_BYTES : readLength(pending)
      if (pending.length < needed) break
      events.push(toServerSentEvent(wire, pending.subarray(0, needed)))
      pending = pending.subarray(needed)
    }
    chunks = [pending]
    bytes = pending.length
    return events
  }
}

/** Length of the frame, length of its headers, and their checksum. */
const PRELUDE_BYTES = 12
const FRAME_BYTES_MIN = 16
/** AWS allows 16 MiB. Events of models are far shorter. */
const FRAME_BYTES_MAX = 16 * 1024 * 1024

function readLength(pending: Buffer): number {
  const length = pending.readUInt32BE(0)
  if (length >= FRAME_BYTES_MIN && length <= FRAME_BYTES_MAX) return length
  throw new Error('Invalid length of a frame in an event stream')
}

const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString()),
  (text) => Buffer.from(text),
)

/** A chunk has the event of the protocol in base64. Other frames are errors. */
function toServerSentEvent(wire: Pick<WireProtocol, 'formatError'>, frame: Buffer): string {
  const { headers, body } = codec.decode(frame)
  const payload = parseObject(Buffer.from(body).toString()) ?? {}
  const named = (name: string): string => String(headers[name]?.value ?? '')
  if (named(':message-type') === 'event')
    return payload.bytes === undefined ? '' : formatEvent(Buffer.from(textOf(payload.bytes) ?? '', 'base64'))
  const code = named(':exception-type') || named(':error-code') || 'unknown'
  const message = textOf(payload.message) ?? named(':error-message')
  return formatEvent(JSON.stringify(toErrorEvent(wire, code, message)), 'error')
}

const toErrorEvent = (wire: Pick<WireProtocol, 'formatError'>, code: string, message: string): JsonObject =>
  wire.formatError(EXCEPTION_STATUSES[code] ?? 500, code, message)

const EXCEPTION_STATUSES: Record<string, number> = {
  validationException: 400,
  throttlingException: 429,
  serviceUnavailableException: 529,
  modelTimeoutException: 504,
}

/** The payload is JSON in one line. The name of an event repeats its type, as Anthropic's own service does. */
function formatEvent(data: string | Buffer, name?: string): string {
  const text = data.toString().replaceAll(/[\r\n]+/g, ' ')
  const type = name ?? textOf(parseObject(text)?.type)
  return `${type === null ? '' : `event: ${type}\n`}data: ${text}\n\n`
}
