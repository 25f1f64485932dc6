import type { Message, ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import type { JsonObject } from '../../harnesses/json.ts'
import type { ModelAccess, WireLevel } from '../../harnesses/model-access.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
import {
  buildSystemPrompt,
  type ClientProtocol,
  type ClientRequestBody,
  findStopReason,
  parseArguments,
  toPlainText,
} from './client-protocol.ts'

export const openaiChat: ClientProtocol = {
  buildPath: () => '/v1/chat/completions',
  buildHeaders: (token) => ({ authorization: `Bearer ${token}` }),
  buildBody,
  parseReply,
  streamMembers: { stream: true, stream_options: { include_usage: true } },
  assemble: assembleChat,
}

/** Sets no output limit: providers differ in its name, and each has a default. */
function buildBody({ model, wireLevel }: ModelAccess, request: ModelRequest): ClientRequestBody {
  const { tools = [], shape, messages } = request
  return {
    model,
    messages: [{ role: 'system', content: buildSystemPrompt(request) }, ...messages.flatMap(toMessages)],
    tools:
      tools.length > 0
        ? tools.map(({ name, description, schema }) => ({
            type: 'function',
            function: { name, description, parameters: schema },
          }))
        : undefined,
    response_format: shape && { type: 'json_schema', json_schema: { ...shape, strict: true } },
    ...toLevelMembers(wireLevel),
  }
}

function toLevelMembers(wire: WireLevel): JsonObject {
  if ('effort' in wire) return { reasoning_effort: wire.effort }
  return 'off' in wire ? { thinking: { type: 'disabled' } } : {}
}

function toMessages(message: Message): JsonObject[] {
  if (message.role === 'user') return [{ role: 'user', content: message.text }]
  if (message.role === 'model') return [objectOf(message.raw)]
  return message.results.map(({ id, text }) => ({ role: 'tool', tool_call_id: id, content: text }))
}

const STOP_REASONS: Record<string, StopReason> = { tool_calls: 'tools', length: 'length', content_filter: 'refusal' }

function parseReply(answer: JsonObject): ModelReply {
  const choice = objectOf(listOf(answer.choices)[0])
  const message = objectOf(choice.message)
  const refusal = typeof message.refusal === 'string' ? message.refusal : ''
  const calls = listOf(message.tool_calls).map(objectOf)
  return {
    text: toText(message.content) || refusal,
    thought: toText(message.reasoning_content) || toText(message.reasoning),
    calls: calls.map((call) => {
      const { name, arguments: given } = objectOf(call.function)
      return { id: toPlainText(call.id), name: toPlainText(name), arguments: parseArguments(given) }
    }),
    raw: { ...message, role: 'assistant', content: message.content ?? null },
    stop: refusal ? 'refusal' : toStopReason(choice, calls.length > 0),
  }
}

/** Returns the reason of the provider. Some providers give none for tool calls. */
const toStopReason = (choice: JsonObject, hasCalls: boolean): StopReason =>
  findStopReason(STOP_REASONS, choice.finish_reason) ?? (hasCalls ? 'tools' : 'done')

const toText = (value: unknown): string => (typeof value === 'string' ? value : '')

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
  const content = join((delta) => toPlainText(delta.content))
  const thought = join((delta) => toPlainText(delta.reasoning_content) || toPlainText(delta.reasoning))
  const refusal = join((delta) => toPlainText(delta.refusal))
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
  let lastIndex = 0
  for (const part of parts) {
    const index = typeof part.index === 'number' ? part.index : lastIndex
    if (calls.size >= CALLS_MAX && !calls.has(index)) continue
    lastIndex = index
    const { name, arguments: given } = objectOf(part.function)
    const call = calls.get(index) ?? { id: '', name: '', arguments: [] }
    calls.set(index, call)
    call.id ||= toPlainText(part.id)
    call.name ||= toPlainText(name)
    call.arguments.push(toPlainText(given))
  }
  return [...calls.values()].map(({ id, name, arguments: given }) => ({
    id,
    type: 'function',
    function: { name, arguments: given.join('') },
  }))
}
