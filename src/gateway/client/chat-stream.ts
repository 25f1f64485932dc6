import type { JsonObject } from '../../harnesses/json.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
import { plainText } from './client-protocol.ts'

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
