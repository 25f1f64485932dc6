import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../harnesses/json.ts'
import { PROTOCOLS, type Protocol } from '../../harnesses/model-access.ts'
import { wireProtocols } from '../protocols.ts'
import { NO_USAGE } from '../wire-protocol.ts'

const operation = { kind: 'generate', model: 'm-1' } as const

const UNLIMITED: Record<Protocol, JsonObject> = {
  'anthropic-messages': { model: 'm-1', max_tokens: 9000, messages: [] },
  'openai-chat': { model: 'm-1', messages: [] },
  'openai-responses': { model: 'm-1', input: [] },
  gemini: { contents: [] },
}

describe.each(PROTOCOLS)('an output limit in %s', (protocol) => {
  const wire = wireProtocols[protocol]
  const body = UNLIMITED[protocol]

  test('is what the gateway reads back, and nothing else changes', () => {
    const limited = wire.withOutputLimit(body, { tokens: 300, provider: 'acme' })
    expect(wire.parseRequest(operation, limited).outputTokens).toBe(300)
    expect(limited).toMatchObject(protocol === 'anthropic-messages' ? { ...body, max_tokens: 300 } : body)
    expect(Object.keys(limited).length - Object.keys(body).length).toBeLessThanOrEqual(1)
  })

  test('replaces a higher limit', () => {
    const high = wire.withOutputLimit(body, { tokens: 5000, provider: 'acme' })
    expect(
      wire.parseRequest(operation, wire.withOutputLimit(high, { tokens: 300, provider: 'acme' })).outputTokens,
    ).toBe(300)
  })
})

test.each<[string, JsonObject, JsonObject]>([
  ['openai', {}, { max_completion_tokens: 7 }],
  ['acme', {}, { max_tokens: 7 }],
  ['openai', { max_tokens: 90 }, { max_tokens: 7 }],
  ['acme', { max_completion_tokens: 90, max_tokens: null }, { max_completion_tokens: 7, max_tokens: null }],
  ['acme', { max_completion_tokens: 90, max_tokens: 80 }, { max_completion_tokens: 7, max_tokens: 7 }],
])('chat completions of %s with %j are limited as %j', (provider, body, expected) => {
  expect(wireProtocols['openai-chat'].withOutputLimit(body, { tokens: 7, provider })).toEqual(expected)
})

test.each<[JsonObject]>([
  [{ generationConfig: { temperature: 1, maxOutputTokens: 9 } }],
  [{ generation_config: { temperature: 1, max_output_tokens: 9 } }],
  [{ generationConfig: { temperature: 1, max_output_tokens: 9, maxOutputTokens: 10 } }],
])('Gemini: %j is limited in its own spelling', (body) => {
  const limited = wireProtocols.gemini.withOutputLimit(body, { tokens: 7, provider: 'google' })
  expect(limited).toEqual({ [Object.keys(body)[0] ?? '']: { temperature: 1, maxOutputTokens: 7 } })
})

test.each<[Protocol, JsonObject]>([
  ['anthropic-messages', { thinking: { type: 'enabled', budget_tokens: 2048 }, output_config: { effort: 'high' } }],
  ['openai-chat', { reasoning: { max_tokens: 2048 } }],
  ['openai-chat', { thinking: { budget_tokens: 2048 } }],
  ['openai-chat', { thinking_budget: 2048 }],
  ['gemini', { generationConfig: { thinkingConfig: { thinkingBudget: 2048 } } }],
])('%s: %j sets tokens aside for reasoning', (protocol, body) => {
  expect(wireProtocols[protocol].parseRequest(operation, body).reasoningTokens).toBe(2048)
})

test('a compaction has no limit', () => {
  const wire = wireProtocols['openai-responses']
  expect(wire.parseOperation('POST', '/v1/responses/compact')).toMatchObject({ kind: 'generate', isCompaction: true })
  expect(wire.parseOperation('POST', '/v1/responses')?.isCompaction).toBeUndefined()
  const compaction = { ...operation, isCompaction: true }
  expect(wire.parseRequest(compaction, { max_output_tokens: 1 }).outputTokens).toBeNull()
})

const meterEvents = (protocol: Protocol, ...events: JsonObject[]) => {
  const meter = wireProtocols[protocol].createMeter()
  for (const event of events) meter.takeEvent(JSON.stringify(event))
  return meter.read()
}

test.each<[Protocol, JsonObject]>([
  ['anthropic-messages', { type: 'message_delta', delta: { stop_reason: 'max_tokens' }, usage: {} }],
  ['openai-chat', { choices: [{ finish_reason: 'length' }] }],
  [
    'openai-responses',
    { type: 'response.incomplete', response: { incomplete_details: { reason: 'max_output_tokens' } } },
  ],
  ['gemini', { candidates: [{ finishReason: 'MAX_TOKENS' }] }],
])('%s: an answer that ends at its limit is truncated', (protocol, event) => {
  expect(meterEvents(protocol, event).isTruncated).toBe(true)
  expect(meterEvents(protocol).isTruncated).toBe(false)
})

// Each event produces nine bytes.
test.each<[Protocol, JsonObject]>([
  ['anthropic-messages', { type: 'content_block_delta', delta: { type: 'text_delta', text: 'grüß dich'.slice(0, 7) } }],
  ['anthropic-messages', { type: 'content_block_delta', delta: { type: 'thinking_delta', thinking: '123456789' } }],
  [
    'anthropic-messages',
    { type: 'content_block_delta', delta: { type: 'input_json_delta', partial_json: '{"a":"b"}' } },
  ],
  [
    'openai-chat',
    { choices: [{ delta: { content: '123', reasoning_content: '456' } }, { delta: { refusal: '789' } }] },
  ],
  ['openai-chat', { choices: [{ delta: { tool_calls: [{ function: { name: 'shell', arguments: '{}{}' } }] } }] }],
  ['openai-responses', { type: 'response.output_text.delta', delta: '123456789' }],
  ['openai-responses', { type: 'response.function_call_arguments.delta', delta: '{"a":"b"}' }],
  ['gemini', { candidates: [{ content: { parts: [{ text: '1234' }, { text: '56789', thought: true }] } }] }],
  ['gemini', { candidates: [{ content: { parts: [{ functionCall: { name: 'shell', args: { a: 'b' } } }] } }] }],
])('%s: counts the text of %j', (protocol, event) => {
  expect(meterEvents(protocol, event, event)).toMatchObject({ usage: undefined, partial: { textBytes: 18 } })
})

test.each<[Protocol, JsonObject]>([
  [
    'anthropic-messages',
    { type: 'message_start', message: { usage: { input_tokens: 7, cache_read_input_tokens: 3, output_tokens: 1 } } },
  ],
  [
    'openai-chat',
    { usage: { prompt_tokens: 10, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 3 } }, choices: [] },
  ],
  ['gemini', { usageMetadata: { promptTokenCount: 10, cachedContentTokenCount: 3, candidatesTokenCount: 1 } }],
])('%s: keeps counts before the end for an answer without a final count', (protocol, event) => {
  expect(meterEvents(protocol, event)).toMatchObject({
    usage: undefined,
    partial: { usage: { ...NO_USAGE, input: 7, cacheRead: 3, output: 1 } },
  })
})
