import type { Message, ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import type { ModelAccess, WireLevel } from '../../harnesses/model-access.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
import type { Json, JsonObject } from '../wire.ts'
import { type Dialect, plainText, stopFor, systemOf } from './dialect.ts'

/** What we ever need in one answer. It must be said, and a stream is not worth its trouble below this. */
const OUTPUT_TOKENS_MAX = 32_000

export const anthropicMessages: Dialect = {
  path: () => '/v1/messages',
  headers: (token) => ({ 'x-api-key': token, 'anthropic-version': '2023-06-01' }),
  body,
  reply,
}

function body({ model, outputTokens, wireLevel }: ModelAccess, asking: ModelRequest): JsonObject {
  const { tools = [], shape, messages } = asking
  const thinking = thinkingOf(wireLevel)
  const config = {
    ...('effort' in wireLevel ? { effort: wireLevel.effort } : {}),
    ...(shape ? { format: { type: 'json_schema', schema: shape.schema } } : {}),
  }
  return {
    model,
    max_tokens: Math.min(outputTokens, OUTPUT_TOKENS_MAX + ('budgetTokens' in wireLevel ? wireLevel.budgetTokens : 0)),
    system: [{ type: 'text', text: systemOf(asking), ...CACHED }],
    messages: messages.map((message, place) => messageOf(message, place === messages.length - 1)),
    ...(tools.length > 0
      ? { tools: tools.map(({ name, description, schema }) => ({ name, description, input_schema: schema })) }
      : {}),
    ...(thinking ? { thinking } : {}),
    ...(Object.keys(config).length > 0 ? { output_config: config } : {}),
  }
}

/** What comes before it is not paid for in full again with the next call. */
const CACHED = { cache_control: { type: 'ephemeral' } }

function thinkingOf(wire: WireLevel): JsonObject | undefined {
  if ('effort' in wire) return { type: 'adaptive' }
  if ('budgetTokens' in wire) return { type: 'enabled', budget_tokens: wire.budgetTokens }
  return 'off' in wire ? { type: 'disabled' } : undefined
}

function messageOf(message: Message, isLast: boolean): JsonObject {
  const mark = isLast ? CACHED : {}
  if (message.role === 'user') return { role: 'user', content: [{ type: 'text', text: message.text, ...mark }] }
  if (message.role === 'model') return { role: 'assistant', content: message.raw }
  const content = message.results.map(({ id, text }, place) => ({
    ...{ type: 'tool_result', tool_use_id: id, content: text },
    ...(place === message.results.length - 1 ? mark : {}),
  }))
  return { role: 'user', content }
}

const STOPS: Record<string, StopReason> = {
  tool_use: 'tools',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  refusal: 'refusal',
}

function reply(answer: JsonObject): ModelReply {
  const blocks = listOf(answer.content).map(objectOf)
  const texts = (type: string, field: string) =>
    blocks.flatMap((block) => (block.type === type ? [plainText(block[field])] : [])).join('')
  return {
    text: texts('text', 'text'),
    thought: texts('thinking', 'thinking'),
    calls: blocks.flatMap(({ type, id, name, input }) =>
      type === 'tool_use' ? [{ id: plainText(id), name: plainText(name), arguments: objectOf(input) }] : [],
    ),
    raw: said(answer.content),
    stop: stopFor(STOPS, answer.stop_reason) ?? 'done',
  }
}

/** An empty message cannot be given back. */
const said = (content: Json | undefined): Json => (listOf(content).length > 0 ? listOf(content) : '(nothing)')
