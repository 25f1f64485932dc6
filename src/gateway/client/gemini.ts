import type { Message, ModelReply, ModelRequest } from '../../harnesses/conversation.ts'
import type { ModelAccess, WireLevel } from '../../harnesses/model-access.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
import type { JsonObject } from '../wire.ts'
import { type Dialect, plainText, systemOf } from './dialect.ts'

export const gemini: Dialect = {
  path: (model) => `/v1beta/models/${encodeURIComponent(model)}:generateContent`,
  headers: (token) => ({ 'x-goog-api-key': token }),
  body,
  reply,
}

function body({ wireLevel }: ModelAccess, asking: ModelRequest): JsonObject {
  const { tools = [], shape, messages } = asking
  const thinking = thinkingOf(wireLevel)
  const config = {
    ...(thinking ? { thinkingConfig: thinking } : {}),
    ...(shape ? { responseMimeType: 'application/json', responseJsonSchema: shape.schema } : {}),
  }
  return {
    systemInstruction: { parts: [{ text: systemOf(asking) }] },
    contents: messages.map(contentOf),
    ...(tools.length > 0
      ? {
          tools: [
            {
              functionDeclarations: tools.map(({ name, description, schema }) => ({
                ...{ name, description, parametersJsonSchema: schema },
              })),
            },
          ],
        }
      : {}),
    ...(Object.keys(config).length > 0 ? { generationConfig: config } : {}),
  }
}

function thinkingOf(wire: WireLevel): JsonObject | undefined {
  if ('effort' in wire) return { thinkingLevel: wire.effort.toUpperCase() }
  if ('budgetTokens' in wire) return { thinkingBudget: wire.budgetTokens }
  return 'off' in wire ? { thinkingBudget: 0 } : undefined
}

function contentOf(message: Message): JsonObject {
  if (message.role === 'user') return { role: 'user', parts: [{ text: message.text }] }
  if (message.role === 'model') return { role: 'model', parts: message.raw }
  const parts = message.results.map(({ id, name, text }) => ({
    functionResponse: { ...(isMadeUp(id) ? {} : { id }), name, response: { output: text } },
  }))
  return { role: 'user', parts }
}

/** Many calls of this protocol have no id, and an answer with one that the model never gave is refused. */
const MADE_UP = 'call-'
const isMadeUp = (id: string): boolean => id.startsWith(MADE_UP)

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
      ...{ id: typeof id === 'string' ? id : `${MADE_UP}${place}`, name: plainText(name) },
      arguments: objectOf(args),
    })),
    raw: parts.length > 0 ? parts : [{ text: '(nothing)' }],
    stop: isRefusal ? 'refusal' : ending,
  }
}
