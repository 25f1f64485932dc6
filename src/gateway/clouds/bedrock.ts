import { Transform } from 'node:stream'
import { EventStreamCodec } from '@smithy/core/event-streams'
import { toAwsKeys } from '../../credentials/clouds.ts'
import type { JsonObject } from '../../harnesses/json.ts'
import { signAwsRequest } from '../../platform/outbound/aws-signature.ts'
import { editRequest } from '../body-threads.ts'
import { objectOf, parseObject, textOf } from '../protocols/fields.ts'
import type { WireProtocol } from '../wire-protocol.ts'
import {
  type CloudCall,
  type CloudTransport,
  readShortText,
  type StreamAnswer,
  selectBetas,
  toJsonAnswer,
} from './cloud-transport.ts'

/**
 * Amazon Bedrock. Messages of Anthropic are sent to InvokeModel, which has the model in its path and answers with an
 * event stream of AWS. Other protocols are those of Bedrock's compatible endpoints, and are only signed.
 */
export const bedrock: CloudTransport = (openStream, call) => async (url, request) => {
  const { wire, secret } = call
  if (wire.protocol === 'anthropic-messages' && !MESSAGES_PATH.test(url))
    return toJsonAnswer(400, wire.formatError(400, 'unsupported', 'Amazon Bedrock does not support this path.'))

  const body = request.body ?? new Uint8Array()
  const sent =
    wire.protocol === 'anthropic-messages'
      ? await toInvocation(url, call.model, selectBetas(request.headers['anthropic-beta'], 'bedrock'), body)
      : { url, body }
  const { method } = request
  const signature = await signAwsRequest(toAwsKeys(secret), 'bedrock', { ...sent, method, contentType: JSON_TYPE })
  const headers = { ...signature, accept: request.headers.accept ?? '*/*', 'accept-encoding': 'identity' }
  return toProtocolAnswer(call, await openStream(sent.url, { ...request, headers, body: sent.body }))
}

const JSON_TYPE = 'application/json'
const MESSAGES_PATH = /\/v1\/messages(\?.*)?$/

/** Moves the model, the form of the answer and the versions to where InvokeModel expects them. */
async function toInvocation(url: string, model: string, betas: string[], bytes: Uint8Array) {
  const { bytes: body, isStream } = await editRequest({
    bytes,
    remove: ['model', 'stream', ...UNKNOWN_MEMBERS],
    add: {
      anthropic_version: 'bedrock-2023-05-31',
      ...(betas.length > 0 ? { anthropic_beta: betas } : {}),
    },
  })
  const verb = isStream ? 'invoke-with-response-stream' : 'invoke'
  return { url: url.replace(MESSAGES_PATH, `/model/${encodeURIComponent(model)}/${verb}`), body }
}

/** Members that only Anthropic's own service knows. None of them changes the answer: the gateway allows their defaults. */
const UNKNOWN_MEMBERS = ['inference_geo', 'metadata', 'service_tier', 'speed']

async function toProtocolAnswer(call: CloudCall, answer: StreamAnswer): Promise<StreamAnswer> {
  const { status, headers, body } = answer
  if (status >= 200 && status < 300) {
    if (!/^application\/vnd\.amazon\.eventstream\b/i.test(String(headers['content-type'] ?? ''))) return answer
    const events = decodeEventStream(call.wire)
    body.on('error', (error) => events.destroy(error))
    events.on('close', () => body.destroy())
    return { status, headers: { ...headers, 'content-type': 'text/event-stream' }, body: body.pipe(events) }
  }
  const { message, Message, error, __type } = parseObject(await readShortText(answer)) ?? {}
  const text = textOf(message) ?? textOf(Message) ?? textOf(objectOf(error).message) ?? 'no reason given'
  const code = toExceptionName(headers['x-amzn-errortype'] ?? __type)
  const protocolStatus = toStatus(status, code, text)
  return toJsonAnswer(protocolStatus, call.wire.formatError(protocolStatus, code, text), headers)
}

/** Removes the namespace before the name of an exception, and the address after it. */
const toExceptionName = (type: unknown): string =>
  /(?:.*#)?(\w+)/.exec(typeof type === 'string' ? type : '')?.[1] ?? 'BedrockException'

/** Statuses that replace Bedrock's own, by the name of the exception in an error response. */
const ERROR_STATUSES: Record<string, number> = {
  ModelErrorException: 500,
  ModelTimeoutException: 504,
  ServiceQuotaExceededException: 429,
}

/** Returns the status that other providers have for the same failure. An unknown model is a validation error here. */
function toStatus(status: number, code: string, message: string): number {
  if (code === 'ValidationException' && /model identifier is invalid/i.test(message)) return 404
  return ERROR_STATUSES[code] ?? status
}

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

/** Size of the beginning of a frame: its length, the length of its headers, and a checksum of both. */
const PRELUDE_BYTES = 12
/** Size of a frame without headers and payload: the prelude and a checksum. */
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

/** Converts a frame. A chunk has the event of the protocol in base64. Other frames are errors. */
function toServerSentEvent(wire: Pick<WireProtocol, 'formatError'>, frame: Buffer): string {
  const { headers, body } = codec.decode(frame)
  const payload = parseObject(Buffer.from(body).toString()) ?? {}
  const readHeader = (name: string): string => String(headers[name]?.value ?? '')
  if (readHeader(':message-type') === 'event')
    return payload.bytes === undefined ? '' : formatEvent(Buffer.from(textOf(payload.bytes) ?? '', 'base64'))
  const code = readHeader(':exception-type') || readHeader(':error-code') || 'unknown'
  const message = textOf(payload.message) ?? readHeader(':error-message')
  return formatEvent(JSON.stringify(toErrorEvent(wire, code, message)), 'error')
}

const toErrorEvent = (wire: Pick<WireProtocol, 'formatError'>, code: string, message: string): JsonObject =>
  wire.formatError(STREAM_ERROR_STATUSES[code] ?? 500, code, message)

/** Statuses by the name of the exception in a stream. */
const STREAM_ERROR_STATUSES: Record<string, number> = {
  validationException: 400,
  throttlingException: 429,
  serviceUnavailableException: 529,
  modelTimeoutException: 504,
}

/** Formats JSON as a server-sent event. Its name repeats the type, as in streams of Anthropic's own service. */
function formatEvent(data: string | Buffer, name?: string): string {
  const text = data.toString().replaceAll(/[\r\n]+/g, ' ')
  const type = name ?? textOf(parseObject(text)?.type)
  return `${type === null ? '' : `event: ${type}\n`}data: ${text}\n\n`
}
