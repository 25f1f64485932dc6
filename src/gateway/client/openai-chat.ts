import type { Message, ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import type { JsonObject } from '../../harnesses/json.ts'
import type { ModelAccess, WireLevel } from '../../harnesses/model-access.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
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

/** Assembles the answer of the chat protocol from the events of a stream. Returns undefined if the stream has no end. */
export function assembleChat(events: readonly JsonObject[]): JsonObject | undefined {
  const choices = events.map(({ choices }) => objectOf(listOf(choices)[0]))
  const finish = choices.findLast(({ finish_reason: reason }) => typeof reason === 'string')?.finish_reason
  if (finish === undefined) return undefined
  const message = assembleMessage(choices.map(({ delta }) => objectOf(delta)))
  const usage = events.findLast((event) => event.usage)?.usage ?? {}
  return { choices: [{ index: 0, message, finish_reason: finish }], usage, model: events[0]?.model ?? null }
}

function assembleMessage(deltas: readonly JsonObject[]): JsonObject {
  const join = (read: (delta: JsonObject) => string): string => deltas.map(read).join('')
  const content = join((delta) => plainText(delta.content))
  const thought = join((delta) => plainText(delta.reasoning_content) || plainText(delta.reasoning))
  const refusal = join((delta) => plainText(delta.refusal))
  const calls = assembleCalls(deltas.flatMap((delta) => listOf(delta.tool_calls).map(objectOf)))
  const message: JsonObject = { role: 'assistant', content: content === '' ? null : content }
  if (thought !== '') message.reasoning_content = thought
  if (refusal !== '') message.refusal = refusal
  if (calls.length > 0) message.tool_calls = calls
  return message
}

const CALLS_MAX = 128

type StreamedCall = { id: string; name: string; arguments: string[] }

/** Joins the parts of tool calls. Parts of one call have the same index; a part without one continues the last call. */
function assembleCalls(parts: readonly JsonObject[]): JsonObject[] {
  const calls = new Map<number, StreamedCall>()
  let last = 0
  for (const part of parts) {
    const index = typeof part.index === 'number' ? part.index : last
    if (calls.size >= CALLS_MAX && !calls.has(index)) continue
    last = index
    const { name, arguments: given } = objectOf(part.function)
    const call = calls.get(index) ?? { id: '', name: '', arguments: [] }
    calls.set(index, call)
    call.id ||= plainText(part.id)
    call.name ||= plainText(name)
    call.arguments.push(plainText(given))
  }
  return [...calls.values()].map(({ id, name, arguments: given }) => ({
    id,
    type: 'function',
    function: { name, arguments: given.join('') },
  }))
}
