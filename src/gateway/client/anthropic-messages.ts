import type { Message, ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import type { Json, JsonObject } from '../../harnesses/json.ts'
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

/** Output limit, which this protocol requires. A higher one would reserve more of the budget for every call. */
const OUTPUT_TOKENS_MAX = 32_000

export const anthropicMessages: ClientProtocol = {
  buildPath: () => '/v1/messages',
  buildHeaders: (token) => ({ 'x-api-key': token, 'anthropic-version': '2023-06-01' }),
  buildBody,
  parseReply,
  streamMembers: { stream: true },
  assemble,
}

function buildBody({ model, outputTokens, wireLevel }: ModelAccess, request: ModelRequest): ClientRequestBody {
  const { tools = [], shape, messages } = request
  const effort = 'effort' in wireLevel ? wireLevel.effort : undefined
  const format = shape && { type: 'json_schema', schema: shape.schema }
  return {
    model,
    max_tokens: Math.min(outputTokens, OUTPUT_TOKENS_MAX + ('budgetTokens' in wireLevel ? wireLevel.budgetTokens : 0)),
    system: [{ type: 'text', text: buildSystemPrompt(request), cache_control: CACHE_CONTROL }],
    messages: messages.map((message, index) => toMessage(message, { isLast: index === messages.length - 1 })),
    tools:
      tools.length > 0
        ? tools.map(({ name, description, schema }) => ({ name, description, input_schema: schema }))
        : undefined,
    thinking: toThinking(wireLevel),
    output_config: effort !== undefined || format ? { effort, format } : undefined,
  }
}

/** Makes the provider cache everything up to this block for the next call. */
const CACHE_CONTROL = { type: 'ephemeral' }

function toThinking(wire: WireLevel): JsonObject | undefined {
  if ('effort' in wire) return { type: 'adaptive' }
  if ('budgetTokens' in wire) return { type: 'enabled', budget_tokens: wire.budgetTokens }
  return 'off' in wire ? { type: 'disabled' } : undefined
}

function toMessage(message: Message, { isLast }: { isLast: boolean }): ClientRequestBody {
  const cache = isLast ? CACHE_CONTROL : undefined
  if (message.role === 'user')
    return { role: 'user', content: [{ type: 'text', text: message.text, cache_control: cache }] }
  if (message.role === 'model') return { role: 'assistant', content: message.raw }
  const content = message.results.map(({ id, text }, index) => ({
    type: 'tool_result',
    tool_use_id: id,
    content: text,
    cache_control: index === message.results.length - 1 ? cache : undefined,
  }))
  return { role: 'user', content }
}

const STOP_REASONS: Record<string, StopReason> = {
  tool_use: 'tools',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  refusal: 'refusal',
}

function parseReply(answer: JsonObject): ModelReply {
  const blocks = listOf(answer.content).map(objectOf)
  const texts = (type: string, field: string) =>
    blocks.flatMap((block) => (block.type === type ? [toPlainText(block[field])] : [])).join('')
  return {
    text: texts('text', 'text'),
    thought: texts('thinking', 'thinking'),
    calls: blocks.flatMap(({ type, id, name, input }) =>
      type === 'tool_use' ? [{ id: toPlainText(id), name: toPlainText(name), arguments: objectOf(input) }] : [],
    ),
    raw: toSendableContent(answer.content),
    stop: findStopReason(STOP_REASONS, answer.stop_reason) ?? 'done',
  }
}

/** Returns content that can be sent back. Providers reject empty messages. */
const toSendableContent = (content: Json | undefined): Json =>
  listOf(content).length > 0 ? listOf(content) : '(nothing)'

/** Joins the events of a stream. Counts that the end of the stream does not repeat are those of its start. */
function assemble(events: readonly JsonObject[]): JsonObject | undefined {
  const eventsOfType = (type: string) => events.filter((event) => event.type === type)
  if (eventsOfType('message_stop').length === 0) return undefined
  const message = objectOf(eventsOfType('message_start')[0]?.message)
  const ends = eventsOfType('message_delta')
  const counts = ends.flatMap(({ usage }) => Object.entries(objectOf(usage)).filter(([, count]) => count !== null))
  return {
    ...message,
    ...Object.assign({}, ...ends.map(({ delta }) => objectOf(delta))),
    usage: { ...objectOf(message.usage), ...Object.fromEntries(counts) },
    content: assembleBlocks(events),
  }
}

type StreamedBlock = { first: JsonObject; deltas: JsonObject[] }

/** Joins the deltas of each content block. Blocks have an index; deltas without a block are ignored. */
function assembleBlocks(events: readonly JsonObject[]): JsonObject[] {
  const blocks = new Map<number, StreamedBlock>()
  for (const { type, index, content_block: first, delta } of events) {
    if (typeof index !== 'number') continue
    if (type === 'content_block_start') blocks.set(index, { first: objectOf(first), deltas: [] })
    if (type === 'content_block_delta') blocks.get(index)?.deltas.push(objectOf(delta))
  }
  return [...blocks.values()].map(assembleBlock)
}

const STREAMED_TEXTS = ['text', 'thinking', 'signature']

function assembleBlock({ first, deltas }: StreamedBlock): JsonObject {
  const join = (field: string): string => deltas.map((delta) => toPlainText(delta[field])).join('')
  const texts = STREAMED_TEXTS.flatMap((field): [string, string][] => {
    const added = join(field)
    return added === '' ? [] : [[field, toPlainText(first[field]) + added]]
  })
  const input = join('partial_json')
  return { ...first, ...Object.fromEntries(texts), ...(input === '' ? {} : { input: parseArguments(input) }) }
}
