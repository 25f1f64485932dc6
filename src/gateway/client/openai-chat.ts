import type { Message, ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import type { ModelAccess, WireLevel } from '../../harnesses/model-access.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
import type { JsonObject } from '../wire.ts'
import { argumentsIn, type Dialect, plainText, stopFor, systemOf } from './dialect.ts'

export const openaiChat: Dialect = {
  path: () => '/v1/chat/completions',
  headers: (token) => ({ authorization: `Bearer ${token}` }),
  body,
  reply,
}

/** How much it may say is left out: providers differ in what they call it, and each has a limit of its own. */
function body({ model, wireLevel }: ModelAccess, asking: ModelRequest): JsonObject {
  const { tools = [], shape, messages } = asking
  return {
    model,
    messages: [{ role: 'system', content: systemOf(asking) }, ...messages.flatMap(messagesOf)],
    ...(tools.length > 0
      ? {
          tools: tools.map(({ name, description, schema }) => ({
            type: 'function',
            function: { name, description, parameters: schema },
          })),
        }
      : {}),
    ...(shape ? { response_format: { type: 'json_schema', json_schema: { ...shape, strict: true } } } : {}),
    ...levelOf(wireLevel),
  }
}

function levelOf(wire: WireLevel): JsonObject {
  if ('effort' in wire) return { reasoning_effort: wire.effort }
  return 'off' in wire ? { thinking: { type: 'disabled' } } : {}
}

function messagesOf(message: Message): JsonObject[] {
  if (message.role === 'user') return [{ role: 'user', content: message.text }]
  if (message.role === 'model') return [objectOf(message.raw)]
  return message.results.map(({ id, text }) => ({ role: 'tool', tool_call_id: id, content: text }))
}

const STOPS: Record<string, StopReason> = { tool_calls: 'tools', length: 'length', content_filter: 'refusal' }

function reply(answer: JsonObject): ModelReply {
  const choice = objectOf(listOf(answer.choices)[0])
  const message = objectOf(choice.message)
  const refusal = typeof message.refusal === 'string' ? message.refusal : ''
  const calls = listOf(message.tool_calls).map(objectOf)
  return {
    text: textIn(message.content) || refusal,
    thought: textIn(message.reasoning_content) || textIn(message.reasoning),
    calls: calls.map((call) => {
      const { name, arguments: given } = objectOf(call.function)
      return { id: plainText(call.id), name: plainText(name), arguments: argumentsIn(given) }
    }),
    raw: { ...message, role: 'assistant', content: message.content ?? null },
    stop: refusal ? 'refusal' : (stopFor(STOPS, choice.finish_reason) ?? (calls.length > 0 ? 'tools' : 'done')),
  }
}

const textIn = (value: unknown): string => (typeof value === 'string' ? value : '')
