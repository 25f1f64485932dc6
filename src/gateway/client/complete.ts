import { type Dispatcher, request } from 'undici'
import { ModelCallFailed, type ModelReply, type ModelRequest } from '../../harnesses/conversation.ts'
import { parseJson } from '../../harnesses/json.ts'
import type { ModelAccess, Protocol } from '../../harnesses/model-access.ts'
import { isObject, objectOf } from '../protocols/fields.ts'
import { wires } from '../protocols.ts'
import type { Json, JsonObject, Usage } from '../wire.ts'
import { anthropicMessages } from './anthropic-messages.ts'
import type { Dialect } from './dialect.ts'
import { gemini } from './gemini.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'

const dialects: Record<Protocol, Dialect> = {
  'anthropic-messages': anthropicMessages,
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  gemini,
}

/** With what it took, where the answer says so. */
export type Completion = ModelReply & { usage: Usage | undefined }

/**
 * Asks a model once. Nothing is asked again here: what passes by itself the gateway has waited for, and what was cut may
 * have been paid for. Throws ModelCallFailed.
 */
export async function complete(access: ModelAccess, asking: ModelRequest, way?: Dispatcher): Promise<Completion> {
  const { protocol, model, baseUrl, token } = access
  const dialect = dialects[protocol]
  const answer = await post(`${baseUrl}${dialect.path(model)}`, {
    headers: dialect.headers(token),
    body: dialect.body(access, asking),
    signal: asking.signal,
    way,
  })
  const meter = wires[protocol].newMeter()
  meter.body(answer)
  return { ...dialect.reply(answer), usage: meter.read().usage }
}

type Post = { headers: Record<string, string>; body: JsonObject; signal: AbortSignal; way: Dispatcher | undefined }

/** Longer than any model thinks. */
const ANSWER_MS = 30 * 60_000

async function post(url: string, { headers, body, signal, way }: Post): Promise<JsonObject> {
  const wait = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)])
  try {
    const answer = await request(url, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: wait,
      ...{ headersTimeout: 0, bodyTimeout: 0 },
      ...(way ? { dispatcher: way } : {}),
    })
    const json = parseJson(await textOf(answer.body))
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

/** Far more than a model writes in one answer, and little enough to parse without holding up others. */
const BYTES_MAX = 8 * 1024 * 1024

async function textOf(body: Dispatcher.ResponseData['body']): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > BYTES_MAX) throw new ModelCallFailed(null, 'The model answered more than we can hold.')
  }
  return Buffer.concat(chunks).toString()
}

const MESSAGE_LENGTH_MAX = 500

/** All four put it there. It is a stranger's text. */
function messageIn(json: Json | undefined): string {
  const { message } = objectOf(objectOf(json).error)
  return typeof message === 'string' ? message.slice(0, MESSAGE_LENGTH_MAX) : 'no reason given'
}

/** The message of the original may quote a header, and so a token. */
const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'the connection broke'
