import { type Dispatcher, ProxyAgent, request } from 'undici'
import { ModelCallFailed, type ModelReply, type ModelRequest } from '../../harnesses/conversation.ts'
import { isObject, type Json, type JsonObject, parseJson } from '../../harnesses/json.ts'
import type { ModelAccess, Protocol } from '../../harnesses/model-access.ts'
import { codeOf } from '../../platform/errors.ts'
import { objectOf } from '../protocols/fields.ts'
import { wireProtocols } from '../protocols.ts'
import { CONNECT_TARGETS, isConnectionRefused } from '../sandbox-port.ts'
import { readEvents } from '../usage-tap.ts'
import type { Usage } from '../wire-protocol.ts'
import { anthropicMessages } from './anthropic-messages.ts'
import type { ClientProtocol, ClientRequestBody } from './client-protocol.ts'
import { gemini } from './gemini.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'

/** Base URL of the gateway inside a tunnel. */
const TUNNEL_BASE_URL = `http://${CONNECT_TARGETS.tunnel}`

type GatewayEndpoint = { url: string; tunnelSecret: string }

type OpenedModel = AsyncDisposable & {
  ask(request: ModelRequest): Promise<Completion>
  /** Returns true if the last call failed because the gateway refused the connection. */
  isCutOff(): boolean
}

/** Opens a client for a model behind the gateway. The tunnel secret opens the tunnel; the token is sent inside it. */
export function openModel(access: Omit<ModelAccess, 'baseUrl'>, { url, tunnelSecret }: GatewayEndpoint): OpenedModel {
  const agent = new ProxyAgent({ uri: url, token: `Bearer ${tunnelSecret}`, proxyTunnel: true })
  let isCutOff = false
  return {
    async ask(request) {
      try {
        // A stream shows that a slow model is alive.
        const options = { dispatcher: agent, isStream: true }
        const completion = await complete({ ...access, baseUrl: TUNNEL_BASE_URL }, request, options)
        isCutOff = false
        return completion
      } catch (error) {
        isCutOff = error instanceof ModelCallFailed && isConnectionRefused(error.cause)
        throw error
      }
    },
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
  { dispatcher, isStream = false, silenceMs = SILENCE_MS }: CompleteOptions = {},
): Promise<Completion> {
  const { protocol, model, baseUrl, token } = access
  const clientProtocol = clientProtocols[protocol]
  const body = clientProtocol.buildBody(access, modelRequest)
  const answer = await post(`${baseUrl}${clientProtocol.buildPath(model, isStream)}`, {
    headers: clientProtocol.buildHeaders(token),
    body: isStream ? { ...body, ...clientProtocol.streamMembers } : body,
    signal: modelRequest.signal,
    silenceMs,
    dispatcher,
    assemble: clientProtocol.assemble,
  })
  const meter = wireProtocols[protocol].createMeter()
  meter.takeBody(answer)
  return { ...clientProtocol.parseReply(answer), usage: meter.read().usage }
}

type CompleteOptions = {
  dispatcher?: Dispatcher | undefined
  isStream?: boolean
  /** Maximum time without a byte of the answer. */
  silenceMs?: number
}

/** Longer than the gateway waits for a provider, so that the gateway ends a silent call first. */
const SILENCE_MS = 30 * 60_000

type ModelPost = {
  headers: Record<string, string>
  body: ClientRequestBody
  signal: AbortSignal
  silenceMs: number
  dispatcher: Dispatcher | undefined
  assemble: ClientProtocol['assemble']
}

/** Sends a request. There is no timeout while the answer grows. */
async function post(
  url: string,
  { headers, body, signal, silenceMs, dispatcher, assemble }: ModelPost,
): Promise<JsonObject> {
  try {
    const answer = await request(url, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
      headersTimeout: silenceMs,
      bodyTimeout: silenceMs,
      ...(dispatcher ? { dispatcher } : {}),
    })
    const isStream = /^text\/event-stream\b/i.test(String(answer.headers['content-type'] ?? ''))
    if (answer.statusCode === 200 && isStream) return await readStream(answer.body, assemble)
    const json = parseJson(await readText(answer.body))
    if (answer.statusCode === 200 && isObject(json)) return json
    if (answer.statusCode === 200)
      throw new ModelCallFailed(200, 'The answer is not a JSON object, or is nested too deeply.')
    throw new ModelCallFailed(answer.statusCode, `The model answered ${answer.statusCode}: ${toErrorMessage(json)}`)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ModelCallFailed) throw error
    throw new ModelCallFailed(null, `The model did not answer (${describeBreak(error)}).`, { cause: error })
  }
}

type ResponseBody = Dispatcher.ResponseData['body']

/** Reads a streamed answer. A stream may end with an error although its status is 200. */
async function readStream(body: ResponseBody, assemble: ClientProtocol['assemble']): Promise<JsonObject> {
  const events: JsonObject[] = []
  const reader = readEvents((data) => {
    const event = parseJson(data)
    if (isObject(event)) events.push(event)
  })
  await readChunks(body, STREAM_BYTES_MAX, reader.push)
  reader.end()
  const failed = events.find(isFailure)
  if (failed) throw new ModelCallFailed(200, `The model answered with an error: ${toErrorMessage(failed)}`)
  const answer = assemble(events)
  if (!answer) throw new ModelCallFailed(null, 'The answer of the model broke off.')
  return answer
}

/**
 * Returns true if an event reports an error. The Responses protocol has errors in the response, or as an event of their
 * own.
 */
const isFailure = ({ type, error, response }: JsonObject): boolean =>
  type === 'error' || (error ?? objectOf(response).error ?? null) !== null

async function readText(body: ResponseBody): Promise<string> {
  const chunks: Uint8Array[] = []
  await readChunks(body, ANSWER_BYTES_MAX, (chunk) => chunks.push(chunk))
  return Buffer.concat(chunks).toString()
}

/** Maximum size of an answer. Models write far less, and an answer of this size does not block the event loop for long. */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024
/** Maximum size of a stream, which has some hundred bytes for every token. Its events are parsed as they arrive. */
const STREAM_BYTES_MAX = 32 * 1024 * 1024

async function readChunks(body: ResponseBody, bytesMax: number, take: (chunk: Uint8Array) => void): Promise<void> {
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > bytesMax) throw new ModelCallFailed(null, 'The answer of the model is too large.')
    take(chunk)
  }
}

const MESSAGE_LENGTH_MAX = 500

/** Returns the message of an error answer or event, where the protocols have it. The text is untrusted. */
function toErrorMessage(json: Json | undefined): string {
  const { error, response, message: direct } = objectOf(json)
  const message = objectOf(error ?? objectOf(response).error).message ?? direct
  return typeof message === 'string' ? message.slice(0, MESSAGE_LENGTH_MAX) : 'no reason given'
}

/** Returns only the code of an error: its message may quote a header, and so a token. */
const describeBreak = (error: unknown): string => codeOf(error) || 'the connection broke'
