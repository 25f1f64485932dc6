import type { Message, ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import type { JsonObject } from '../../harnesses/json.ts'
import type { ModelAccess, WireLevel } from '../../harnesses/model-access.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
import { assembleChat } from './chat-stream.ts'
import {
  type ClientProtocol,
  type ClientRequestBody,
  parseArguments,
  plainText,
  stopFor,
  systemOf,
} from './client-protocol.ts'

export const openaiChat: ClientProtocol = {
  path: () => '/v1/chat/completions',
  headers: (token) => ({ authorization: `Bearer ${token}` }),
  body,
  reply,
  streamMembers: { stream: true, stream_options: { include_usage: true } },
  assemble: assembleChat,
}

/** Sets no output limit: providers differ in its name, and each has a default. */
function body({ model, wireLevel }: ModelAccess, request: ModelRequest): ClientRequestBody {
  const { tools = [], shape, messages } = request
  return {
    model,
    messages: [{ role: 'system', content: systemOf(request) }, ...messages.flatMap(messagesOf)],
    tools:
      tools.length > 0
        ? tools.map(({ name, description, schema }) => ({
            type: 'function',
            function: { name, description, parameters: schema },
          }))
        : undefined,
    response_format: shape && { type: 'json_schema', json_schema: { ...shape, strict: true } },
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
    text: textOf(message.content) || refusal,
    thought: textOf(message.reasoning_content) || textOf(message.reasoning),
    calls: calls.map((call) => {
      const { name, arguments: given } = objectOf(call.function)
      return { id: plainText(call.id), name: plainText(name), arguments: parseArguments(given) }
    }),
    raw: { ...message, role: 'assistant', content: message.content ?? null },
    stop: refusal ? 'refusal' : (stopFor(STOPS, choice.finish_reason) ?? (calls.length > 0 ? 'tools' : 'done')),
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
