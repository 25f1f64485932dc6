import type { Message, ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import { isObject, type Json, type JsonObject } from '../../harnesses/json.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
import {
  buildSystemPrompt,
  type ClientProtocol,
  type ClientRequestBody,
  parseArguments,
  toPlainText,
} from './client-protocol.ts'

export const openaiResponses: ClientProtocol = {
  buildPath: () => '/v1/responses',
  buildHeaders: (token) => ({ authorization: `Bearer ${token}` }),
  buildBody,
  parseReply,
  streamMembers: { stream: true },
  assemble,
}

/** Builds a request that the provider does not store. Reasoning comes back encrypted and is sent with the next request. */
function buildBody({ model, wireLevel }: ModelAccess, request: ModelRequest): ClientRequestBody {
  const { tools = [], shape, messages } = request
  const effort = 'effort' in wireLevel ? wireLevel.effort : undefined
  return {
    model,
    instructions: buildSystemPrompt(request),
    input: messages.flatMap(toInputItems),
    store: false,
    tools:
      tools.length > 0
        ? tools.map(({ name, description, schema }) => ({
            type: 'function',
            name,
            description,
            parameters: schema,
            strict: false,
          }))
        : undefined,
    text: shape && { format: { type: 'json_schema', ...shape, strict: true } },
    reasoning: effort === undefined ? undefined : { effort },
    include: effort === undefined ? undefined : ['reasoning.encrypted_content'],
  }
}

function toInputItems(message: Message): Json[] {
  if (message.role === 'user') return [{ role: 'user', content: message.text }]
  if (message.role === 'model') return listOf(message.raw)
  return message.results.map(({ id, text }) => ({ type: 'function_call_output', call_id: id, output: text }))
}

function parseReply(answer: JsonObject): ModelReply {
  const items = listOf(answer.output).map(objectOf)
  const itemsOfType = (type: string) => items.filter((item) => item.type === type)
  const contentParts = itemsOfType('message').flatMap(({ content }) => listOf(content).map(objectOf))
  const refusal = contentParts.flatMap(({ refusal: text }) => (typeof text === 'string' ? [text] : [])).join('')
  const text = contentParts.flatMap(({ type, text }) => (type === 'output_text' ? [toPlainText(text)] : [])).join('')
  const calls = itemsOfType('function_call')
  return {
    text: text || refusal,
    thought: itemsOfType('reasoning')
      .flatMap(({ summary }) => listOf(summary).map((part) => toPlainText(objectOf(part).text)))
      .join('\n'),
    calls: calls.map((call) => ({
      id: toPlainText(call.call_id),
      name: toPlainText(call.name),
      arguments: parseArguments(call.arguments),
    })),
    raw: listOf(answer.output),
    stop: toStopReason(answer, { isRefusal: refusal !== '', hasCalls: calls.length > 0 }),
  }
}

/** Returns the response of the last event. Some servers leave its output empty, so it is collected from earlier events. */
function assemble(events: readonly JsonObject[]): JsonObject | undefined {
  const response = events.findLast(
    ({ type }) => type === 'response.completed' || type === 'response.incomplete',
  )?.response
  if (!isObject(response)) return undefined
  if (listOf(response.output).length > 0) return response
  return {
    ...response,
    output: events.flatMap(({ type, item }) => (type === 'response.output_item.done' ? [objectOf(item)] : [])),
  }
}

function toStopReason(
  answer: JsonObject,
  { isRefusal, hasCalls }: { isRefusal: boolean; hasCalls: boolean },
): StopReason {
  if (isRefusal || objectOf(answer.incomplete_details).reason === 'content_filter') return 'refusal'
  if (answer.status === 'incomplete') return 'length'
  return hasCalls ? 'tools' : 'done'
}
