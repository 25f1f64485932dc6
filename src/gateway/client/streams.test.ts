import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../harnesses/json.ts'
import { anthropicMessages } from './anthropic-messages.ts'
import { gemini } from './gemini.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'

const block = (index: number, first: JsonObject, ...deltas: JsonObject[]): JsonObject[] => [
  { type: 'content_block_start', index, content_block: first },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
]

test('anthropic: joins thoughts with their signature, texts and tool input, and keeps other blocks', () => {
  const redacted = { type: 'redacted_thinking', data: 'sealed' }
  const answer = anthropicMessages.assemble([
    { type: 'message_start', message: { type: 'message', model: 'm', usage: { input_tokens: 7, output_tokens: 1 } } },
    ...block(
      0,
      { type: 'thinking', thinking: '', signature: '' },
      { type: 'thinking_delta', thinking: 'Let me ' },
      { type: 'thinking_delta', thinking: 'see.' },
      { type: 'signature_delta', signature: 'c2ln' },
    ),
    ...block(1, redacted),
    ...block(2, { type: 'text', text: '' }, { type: 'text_delta', text: 'I ' }, { type: 'text_delta', text: 'look.' }),
    ...block(
      3,
      { type: 'tool_use', id: 'a', name: 'shell', input: {} },
      { type: 'input_json_delta', partial_json: '{"comm' },
      { type: 'input_json_delta', partial_json: 'and":"ls"}' },
    ),
    ...block(4, { type: 'tool_use', id: 'b', name: 'shell', input: {} }),
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { input_tokens: null, output_tokens: 5 } },
    { type: 'message_stop' },
  ])
  expect(answer?.usage).toEqual({ input_tokens: 7, output_tokens: 5 })
  expect(anthropicMessages.parseReply(answer ?? {})).toEqual({
    text: 'I look.',
    thought: 'Let me see.',
    calls: [
      { id: 'a', name: 'shell', arguments: { command: 'ls' } },
      { id: 'b', name: 'shell', arguments: {} },
    ],
    raw: [
      { type: 'thinking', thinking: 'Let me see.', signature: 'c2ln' },
      redacted,
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', id: 'a', name: 'shell', input: { command: 'ls' } },
      { type: 'tool_use', id: 'b', name: 'shell', input: {} },
    ],
    stop: 'tools',
  })
})

test('gemini: joins neighbouring texts and keeps parts with a signature as they are', () => {
  const chunk = (...parts: JsonObject[]): JsonObject => ({ candidates: [{ content: { role: 'model', parts } }] })
  const signed = { functionCall: { name: 'shell', args: {} }, thoughtSignature: 'c2ln' }
  const answer = gemini.assemble([
    chunk({ text: 'Let me ', thought: true }),
    chunk({ text: 'see.', thought: true }),
    chunk({ text: 'I ' }),
    chunk({ text: 'look.' }, { text: '', thoughtSignature: 'c2ln' }),
    chunk(signed),
    { candidates: [{ finishReason: 'STOP' }], usageMetadata: { promptTokenCount: 7 }, modelVersion: 'm' },
  ])
  expect(answer).toMatchObject({ usageMetadata: { promptTokenCount: 7 }, modelVersion: 'm' })
  expect(gemini.parseReply(answer ?? {})).toMatchObject({
    text: 'I look.',
    thought: 'Let me see.',
    raw: [{ text: 'Let me see.', thought: true }, { text: 'I look.' }, { text: '', thoughtSignature: 'c2ln' }, signed],
    stop: 'tools',
  })
})

test('gemini: a blocked prompt is a refusal', () => {
  const answer = gemini.assemble([{ promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: {} }])
  expect(gemini.parseReply(answer ?? {}).stop).toBe('refusal')
})

test('responses: the output of finished items replaces an empty one at the end', () => {
  const item = { type: 'message', content: [{ type: 'output_text', text: 'Done so.' }] }
  const answer = openaiResponses.assemble([
    { type: 'response.created', response: { status: 'in_progress', output: [] } },
    { type: 'response.output_item.done', item },
    { type: 'response.completed', response: { status: 'completed', output: [] } },
  ])
  expect(openaiResponses.parseReply(answer ?? {})).toMatchObject({ text: 'Done so.', raw: [item], stop: 'done' })
})

const clientProtocols = { anthropicMessages, openaiChat, openaiResponses, gemini }
const HOSTILE: JsonObject[] = [
  {},
  { type: 'message_start', message: 7 },
  { type: 'content_block_start', index: 1e9, content_block: null },
  { type: 'content_block_delta', index: 1e9, delta: { text: { evil: true }, partial_json: '[' } },
  { type: 'content_block_delta', index: -1, delta: 'none' },
  { type: 'message_delta', delta: [], usage: 'none' },
  { type: 'message_stop', choices: 'none', candidates: 'none' },
  { type: 'response.output_item.done', item: 'none', choices: [{ delta: 7, finish_reason: 'stop' }] },
  { candidates: [{ content: { parts: [null, { text: 7 }, 'none'] }, finishReason: {} }] },
  { type: 'response.completed', response: { output: 'none' } },
]

describe.each(Object.entries(clientProtocols))('%s', (_name, { assemble, parseReply }) => {
  test('reads events of any shape', () => {
    const { text, calls } = parseReply(assemble(HOSTILE) ?? {})
    expect(typeof text).toBe('string')
    expect(calls).toEqual([])
  })

  test('a stream without its end is no answer', () => {
    expect(assemble([])).toBeUndefined()
    expect(assemble(HOSTILE.slice(0, 6))).toBeUndefined()
  })
})
