import { toAwsKeys } from '../../credentials/clouds.ts'
import { signAwsRequest } from '../../platform/outbound/aws-signature.ts'
import { edit } from '../body-threads.ts'
import { objectOf, parseObject, textOf } from '../protocols/fields.ts'
import { selectBetas } from './anthropic-betas.ts'
import {
  type CloudCall,
  type CloudTransport,
  readShortText,
  type StreamAnswer,
  toJsonAnswer,
} from './cloud-transport.ts'
import { decodeEventStream } from './event-stream.ts'

/**
 * Amazon Bedrock. Messages of Anthropic are sent to InvokeModel, which has the model in its path and answers with an
 * event stream of AWS. Other protocols are those of Bedrock's compatible endpoints, and are only signed.
 */
export const bedrock: CloudTransport = (openStream, call) => async (url, request) => {
  const { wire, secret } = call
  if (wire.protocol === 'anthropic-messages' && !MESSAGES.test(url))
    return toJsonAnswer(400, wire.formatError(400, 'unsupported', 'Amazon Bedrock does not support this path.'))

  const body = request.body ?? new Uint8Array()
  const sent =
    wire.protocol === 'anthropic-messages'
      ? await toInvocation(url, call.model, selectBetas(request.headers['anthropic-beta'], 'bedrock'), body)
      : { url, body }
  const { method } = request
  const signature = await signAwsRequest(toAwsKeys(secret), 'bedrock', { ...sent, method, contentType: JSON_TYPE })
  const headers = { ...signature, accept: request.headers.accept ?? '*/*', 'accept-encoding': 'identity' }
  return fromBedrock(call, await openStream(sent.url, { ...request, headers, body: sent.body }))
}

const JSON_TYPE = 'application/json'
const MESSAGES = /\/v1\/messages(\?.*)?$/

/** Moves the model, the form of the answer and the versions to where InvokeModel expects them. */
async function toInvocation(url: string, model: string, betas: string[], bytes: Uint8Array) {
  const { bytes: body, isStream } = await edit({
    bytes,
    remove: ['model', 'stream', ...UNKNOWN_MEMBERS],
    add: {
      anthropic_version: 'bedrock-2023-05-31',
      ...(betas.length > 0 ? { anthropic_beta: betas } : {}),
    },
  })
  const verb = isStream ? 'invoke-with-response-stream' : 'invoke'
  return { url: url.replace(MESSAGES, `/model/${encodeURIComponent(model)}/${verb}`), body }
}

/** Members that only Anthropic's own service knows. None of them changes the answer: the gateway allows their defaults. */
const UNKNOWN_MEMBERS = ['inference_geo', 'metadata', 'service_tier', 'speed']

async function fromBedrock(call: CloudCall, answer: StreamAnswer): Promise<StreamAnswer> {
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
  const meant = toStatus(status, code, text)
  return toJsonAnswer(meant, call.wire.formatError(meant, code, text), headers)
}

/** Removes the namespace before the name of an exception, and the address after it. */
const toExceptionName = (type: unknown): string =>
  /(?:.*#)?(\w+)/.exec(typeof type === 'string' ? type : '')?.[1] ?? 'BedrockException'

const STATUSES: Record<string, number> = {
  ModelErrorException: 500,
  ModelTimeoutException: 504,
  ServiceQuotaExceededException: 429,
}

/** Returns the status that other providers have for the same failure. An unknown model is a validation error here. */
function toStatus(status: number, code: string, message: string): number {
  if (code === 'ValidationException' && /model identifier is invalid/i.test(message)) return 404
  return STATUSES[code] ?? status
}
