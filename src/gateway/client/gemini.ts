import type { Message, ModelReply, ModelRequest } from '../../harnesses/conversation.ts'
import type { JsonObject } from '../../harnesses/json.ts'
import type { ModelAccess, WireLevel } from '../../harnesses/model-access.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
import { type ClientProtocol, type ClientRequestBody, plainText, systemOf } from './client-protocol.ts'

export const gemini: ClientProtocol = {
  path: (model) => `/v1beta/models/${encodeURIComponent(model)}:generateContent`,
  headers: (token) => ({ 'x-goog-api-key': token }),
  body,
  reply,
}

function body({ wireLevel }: ModelAccess, request: ModelRequest): ClientRequestBody {
  const { tools = [], shape, messages } = request
  const thinkingConfig = thinkingOf(wireLevel)
  const functionDeclarations = tools.map(({ name, description, schema }) => ({
    name,
    description,
    parametersJsonSchema: schema,
  }))
  return {
    systemInstruction: { parts: [{ text: systemOf(request) }] },
    contents: messages.map(contentOf),
    tools: tools.length > 0 ? [{ functionDeclarations }] : undefined,
    generationConfig:
      thinkingConfig || shape
        ? {
            thinkingConfig,
            responseMimeType: shape && 'application/json',
            responseJsonSchema: shape?.schema,
          }
        : undefined,
  }
}

function thinkingOf(wire: WireLevel): JsonObject | undefined {
  if ('effort' in wire) return { thinkingLevel: wire.effort.toUpperCase() }
  if ('budgetTokens' in wire) return { thinkingBudget: wire.budgetTokens }
  return 'off' in wire ? { thinkingBudget: 0 } : undefined
}

function contentOf(message: Message): ClientRequestBody {
  if (message.role === 'user') return { role: 'user', parts: [{ text: message.text }] }
  if (message.role === 'model') return { role: 'model', parts: message.raw }
  const parts = message.results.map(({ id, name, text }) => ({
    functionResponse: { id: isGenerated(id) ? undefined : id, name, response: { output: text } },
  }))
  return { role: 'user', parts }
}

/** Prefix of generated ids. Many calls have no id, and the provider rejects ids that it did not issue. */
const GENERATED = 'call-'
const isGenerated = (id: string): boolean => id.startsWith(GENERATED)

const REFUSALS = ['SAFETY', 'PROHIBITED_CONTENT', 'BLOCKLIST', 'SPII', 'RECITATION', 'LANGUAGE']

function reply(answer: JsonObject): ModelReply {
  const candidate = objectOf(listOf(answer.candidates)[0])
  const parts = listOf(objectOf(candidate.content).parts).map(objectOf)
  const texts = (isThought: boolean) =>
    parts.flatMap(({ text, thought }) => (typeof text === 'string' && (thought === true) === isThought ? [text] : []))
  const calls = parts.flatMap(({ functionCall }) => (functionCall === undefined ? [] : [objectOf(functionCall)]))
  const isRefusal =
    objectOf(answer.promptFeedback).blockReason !== undefined || REFUSALS.includes(plainText(candidate.finishReason))
  const ending = candidate.finishReason === 'MAX_TOKENS' ? 'length' : calls.length > 0 ? 'tools' : 'done'
  return {
    text: texts(false).join(''),
    thought: texts(true).join(''),
    calls: calls.map(({ id, name, args }, place) => ({
      id: typeof id === 'string' ? id : `${GENERATED}${place}`,
      name: plainText(name),
      arguments: objectOf(args),
    })),
    raw: parts.length > 0 ? parts : [{ text: '(nothing)' }],
    stop: isRefusal ? 'refusal' : ending,
  }
}
