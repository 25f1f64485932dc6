import type { Message, ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
import type { Json, JsonObject } from '../wire.ts'
import { argumentsIn, type Dialect, plainText, systemOf } from './dialect.ts'

export const openaiResponses: Dialect = {
  path: () => '/v1/responses',
  headers: (token) => ({ authorization: `Bearer ${token}` }),
  body,
  reply,
}

/** Nothing is kept by the provider, so its thoughts come sealed, and go back with the next call. */
function body({ model, wireLevel }: ModelAccess, asking: ModelRequest): JsonObject {
  const { tools = [], shape, messages } = asking
  return {
    model,
    instructions: systemOf(asking),
    input: messages.flatMap(itemsOf),
    store: false,
    ...(tools.length > 0
      ? {
          tools: tools.map(({ name, description, schema }) => ({
            ...{ type: 'function', name, description, parameters: schema, strict: false },
          })),
        }
      : {}),
    ...(shape ? { text: { format: { type: 'json_schema', ...shape, strict: true } } } : {}),
    ...('effort' in wireLevel
      ? { reasoning: { effort: wireLevel.effort }, include: ['reasoning.encrypted_content'] }
      : {}),
  }
}

function itemsOf(message: Message): Json[] {
  if (message.role === 'user') return [{ role: 'user', content: message.text }]
  if (message.role === 'model') return listOf(message.raw)
  return message.results.map(({ id, text }) => ({ type: 'function_call_output', call_id: id, output: text }))
}

function reply(answer: JsonObject): ModelReply {
  const items = listOf(answer.output).map(objectOf)
  const parts = (type: string) => items.filter((item) => item.type === type)
  const spoken = parts('message').flatMap(({ content }) => listOf(content).map(objectOf))
  const refusal = spoken.flatMap(({ refusal: text }) => (typeof text === 'string' ? [text] : [])).join('')
  const text = spoken.flatMap(({ type, text: said }) => (type === 'output_text' ? [plainText(said)] : [])).join('')
  const calls = parts('function_call')
  return {
    text: text || refusal,
    thought: parts('reasoning')
      .flatMap(({ summary }) => listOf(summary).map((part) => plainText(objectOf(part).text)))
      .join('\n'),
    calls: calls.map((call) => ({
      ...{ id: plainText(call.call_id), name: plainText(call.name) },
      arguments: argumentsIn(call.arguments),
    })),
    raw: listOf(answer.output),
    stop: stopOf(answer, refusal !== '', calls.length > 0),
  }
}

function stopOf(answer: JsonObject, isRefusal: boolean, hasCalls: boolean): StopReason {
  if (isRefusal || objectOf(answer.incomplete_details).reason === 'content_filter') return 'refusal'
  if (answer.status === 'incomplete') return 'length'
  return hasCalls ? 'tools' : 'done'
}
