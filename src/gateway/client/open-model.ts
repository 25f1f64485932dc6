import { type Dispatcher, ProxyAgent, request } from 'undici'
import { type AskModel, ModelCallFailed, type ModelReply, type ModelRequest } from '../../harnesses/conversation.ts'
import { type Json, type JsonObject, parseJson } from '../../harnesses/json.ts'
import type { ModelAccess, Protocol } from '../../harnesses/model-access.ts'
import { isObject, objectOf } from '../protocols/fields.ts'
import { wireProtocols } from '../protocols.ts'
import { isConnectionRefused } from '../sandbox-port.ts'
import { readEvents } from '../usage-tap.ts'
import type { Usage } from '../wire-protocol.ts'
import { anthropicMessages } from './anthropic-messages.ts'
import type { ClientProtocol, ClientRequestBody } from './client-protocol.ts'
import { gemini } from './gemini.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'

/** Base URL of the gateway inside a tunnel. */
const TUNNEL_BASE_URL = 'http://gateway:80'

type GatewayEndpoint = { url: string; tunnelSecret: string }

export type OpenedModel = AsyncDisposable & {
  ask: AskModel
  complete(request: ModelRequest): Promise<Completion>
  /** Returns true if the last call failed because the gateway refused the connection. */
  isCutOff(): boolean
}

/** Opens a client for a model behind the gateway. The tunnel secret opens the tunnel; the token is sent inside it. */
export function openModel(access: Omit<ModelAccess, 'baseUrl'>, { url, tunnelSecret }: GatewayEndpoint): OpenedModel {
  const agent = new ProxyAgent({ uri: url, token: `Bearer ${tunnelSecret}`, proxyTunnel: true })
  let isCutOff = false
  const send = async (request: ModelRequest, options: CompleteOptions) => {
    try {
      const completion = await complete({ ...access, baseUrl: TUNNEL_BASE_URL }, request, {
        dispatcher: agent,
        ...options,
      })
      isCutOff = false
      return completion
    } catch (error) {
      isCutOff = error instanceof ModelCallFailed && isConnectionRefused(error.cause)
      throw error
    }
  }
  return {
    // Agents wait for long answers, and a stream shows that a slow model is alive.
    ask: (request) => send(request, { isStream: true }),
    complete: (request) => send(request, {}),
    isCutOff: () => isCutOff,
    [Symbol.asyncDispose]: () => agent.destroy(),
  }
}

const clientProtocols: Record<Protocol, ClientProtocol> = {
  'anthropic-messages': anthropicMessages,
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  gemini,
}

/** A reply with its usage, if the answer reports it. */
type Completion = ModelReply & { usage: Usage | undefined }

/**
 * Calls a model once. There are no retries: the gateway has already retried transient failures, and an answer
 * that broke off may have been billed. Throws `ModelCallFailed`.
 */
export async function complete(
  access: ModelAccess,
  modelRequest: ModelRequest,
  { dispatcher, isStream = false }: CompleteOptions = {},
): Promise<Completion> {
  const { protocol, model, baseUrl, token } = access
  const clientProtocol = clientProtocols[protocol]
  const assemble = isStream ? clientProtocol.assemble : undefined
  const body = clientProtocol.body(access, modelRequest)
  const answer = await post(`${baseUrl}${clientProtocol.path(model)}`, {
    headers: clientProtocol.headers(token),
    body: assemble ? { ...body, stream: true, stream_options: { include_usage: true } } : body,
    signal: modelRequest.signal,
    dispatcher,
    assemble,
  })
  const meter = wireProtocols[protocol].createMeter()
  meter.takeBody(answer)
  return { ...clientProtocol.reply(answer), usage: meter.read().usage }
}

/** `isStream`: stream the answer if the protocol supports it. */
type CompleteOptions = { dispatcher?: Dispatcher | undefined; isStream?: boolean }

type ModelPost = {
  headers: Record<string, string>
  body: ClientRequestBody
  signal: AbortSignal
  dispatcher: Dispatcher | undefined
  assemble: ClientProtocol['assemble']
}

/** Timeout of a call, longer than any model needs. */
const CALL_TIMEOUT_MS = 30 * 60_000

async function post(url: string, { headers, body, signal, dispatcher, assemble }: ModelPost): Promise<JsonObject> {
  const signalOrTimeout = AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)])
  try {
    const answer = await request(url, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: signalOrTimeout,
      headersTimeout: 0,
      bodyTimeout: 0,
      ...(dispatcher ? { dispatcher } : {}),
    })
    const text = await textOf(answer.body)
    const isStream = /^text\/event-stream\b/i.test(String(answer.headers['content-type'] ?? ''))
    if (answer.statusCode === 200 && isStream && assemble) return readStream(text, assemble)
    const json = parseJson(text)
    if (answer.statusCode === 200 && isObject(json)) return json
    if (answer.statusCode === 200)
      throw new ModelCallFailed(200, 'The answer is not a JSON object, or is nested too deeply.')
    throw new ModelCallFailed(answer.statusCode, `The model answered ${answer.statusCode}: ${messageIn(json)}`)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ModelCallFailed) throw error
    throw new ModelCallFailed(null, `The model did not answer (${codeOf(error)}).`, { cause: error })
  }
}

/** Reads a streamed answer. A stream may end with an error although its status is 200. */
function readStream(text: string, assemble: NonNullable<ClientProtocol['assemble']>): JsonObject {
  const events: JsonObject[] = []
  const reader = readEvents((data) => {
    const event = parseJson(data)
    if (isObject(event)) events.push(event)
  })
  reader.push(Buffer.from(text))
  reader.end()
  const failed = events.find(({ error }) => error !== undefined && error !== null)
  if (failed) throw new ModelCallFailed(200, `The model answered with an error: ${messageIn(failed)}`)
  const answer = assemble(events)
  if (!answer) throw new ModelCallFailed(null, 'The answer of the model broke off.')
  return answer
}

/** Maximum size of an answer. Models write far less, and an answer of this size does not block the event loop for long. */
const BYTES_MAX = 8 * 1024 * 1024

async function textOf(body: Dispatcher.ResponseData['body']): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > BYTES_MAX) throw new ModelCallFailed(null, 'The answer of the model is too large.')
  }
  return Buffer.concat(chunks).toString()
}

const MESSAGE_LENGTH_MAX = 500

/** Returns the message of an error answer. All protocols use the field `error.message`. The text is untrusted. */
function messageIn(json: Json | undefined): string {
  const { message } = objectOf(objectOf(json).error)
  return typeof message === 'string' ? message.slice(0, MESSAGE_LENGTH_MAX) : 'no reason given'
}

/** Returns only the code of an error: its message may quote a header, and so a token. */
const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'the connection broke'
