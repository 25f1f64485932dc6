import { listOf, objectOf, textOf, tokensOf } from '../../../src/gateway/protocols/fields.ts'
import type { Json, JsonObject } from '../../../src/harnesses/json.ts'
import {
  answerPieces,
  type Conversation,
  event,
  inputText,
  type MockAnswer,
  type MockUsage,
  piecesOf,
  type Speech,
  textIn,
} from '../conversation.ts'

export const anthropicMessages: Speech = {
  protocol: 'anthropic-messages',
  read,
  sayable: (usage) => usage,
  whole: (answer) => ({
    ...messageOf(answer),
    content: blocksOf(answer),
    stop_reason: stopOf(answer),
    usage: usageOf(answer.usage),
  }),
  events: eventsOf,
  pieces: answerPieces,
  problem: (status, message) => ({ type: 'error', error: { type: ERRORS[status] ?? 'api_error', message } }),
}

const ERRORS: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
}

function read(_path: string, body: JsonObject): Conversation {
  const messages = listOf(body.messages).map(objectOf)
  const blocks = messages.flatMap(({ content }) => listOf(content)).map(objectOf)
  return {
    model: textOf(body.model) ?? '',
    isStream: body.stream === true,
    level: levelOf(body),
    tools: listOf(body.tools)
      .map(objectOf)
      .map((tool) => ({
        name: textOf(tool.name) ?? '',
        kind: 'function',
        schema: objectOf(tool.input_schema),
        namespace: null,
      })),
    prompt: messages
      .filter(({ role }) => role === 'user')
      .map(({ content }) => textIn(content))
      .join('\n'),
    results: blocks.filter(({ type }) => type === 'tool_result').length,
    lastResult: textIn(blocks.findLast(({ type }) => type === 'tool_result')?.content),
    wantsUsage: true,
    outputMax: tokensOf(body.max_tokens) ?? null,
  }
}

function levelOf(body: JsonObject): string | null {
  const { type, budget_tokens: budget } = objectOf(body.thinking)
  if (type === 'disabled') return 'off'
  return textOf(objectOf(body.output_config).effort) ?? (typeof budget === 'number' ? `budget ${budget}` : null)
}

const messageOf = ({ id, model }: MockAnswer): JsonObject => ({
  id: `msg_${id}`,
  type: 'message',
  role: 'assistant',
  model,
  content: [],
  stop_reason: null,
  stop_sequence: null,
})

function stopOf({ call, isRefusal, isTruncated }: MockAnswer): string {
  if (isTruncated) return 'max_tokens'
  if (isRefusal) return 'refusal'
  return call ? 'tool_use' : 'end_turn'
}

const blocksOf = (answer: MockAnswer): Json[] => [
  ...(answer.text === '' ? [] : [{ type: 'text', text: answer.text }]),
  ...(answer.call ? [toolUse(answer, answer.call.input)] : []),
]

const toolUse = ({ id, call }: MockAnswer, input: Json): JsonObject => ({
  type: 'tool_use',
  id: `toolu_${id}`,
  name: call?.tool.name ?? '',
  input,
})

const usageOf = (usage: MockUsage): JsonObject => ({
  input_tokens: usage.input,
  cache_read_input_tokens: usage.cacheRead,
  cache_creation_input_tokens: usage.cacheWrite5m + usage.cacheWrite1h,
  cache_creation: {
    ephemeral_5m_input_tokens: usage.cacheWrite5m,
    ephemeral_1h_input_tokens: usage.cacheWrite1h,
  },
  output_tokens: usage.output,
  output_tokens_details: { thinking_tokens: usage.reasoning },
  service_tier: 'standard',
})

function eventsOf(answer: MockAnswer): string[] {
  const send = (data: JsonObject): string => event(String(data.type), data)
  const usage = usageOf(answer.usage)
  const start = { ...messageOf(answer), usage: { ...usage, output_tokens: 1, output_tokens_details: null } }
  const text = answer.text === '' ? [] : [{ first: { type: 'text', text: '' }, deltas: textDeltas(answer.text) }]
  const call = answer.call ? [{ first: toolUse(answer, {}), deltas: inputDeltas(inputText(answer.call)) }] : []
  const blocks = [...text, ...call].flatMap(({ first, deltas }, index) => [
    { type: 'content_block_start', index, content_block: first },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ])
  return [
    { type: 'message_start', message: start },
    { type: 'ping' },
    ...blocks,
    { type: 'message_delta', delta: { stop_reason: stopOf(answer), stop_sequence: null }, usage },
    { type: 'message_stop' },
  ].map(send)
}

const textDeltas = (text: string): JsonObject[] => piecesOf(text).map((piece) => ({ type: 'text_delta', text: piece }))

const inputDeltas = (input: string): JsonObject[] =>
  piecesOf(input).map((piece) => ({ type: 'input_json_delta', partial_json: piece }))
