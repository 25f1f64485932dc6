import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../harnesses/json.ts'
import type { MeteredAnswer } from '../wire-protocol.ts'
import { anthropicMessages } from './anthropic-messages.ts'

const GENERATE = { kind: 'generate', model: null } as const
const read = (body: JsonObject) => anthropicMessages.parseRequest(GENERATE, { model: 'm', ...body })

function meterEvents(...events: JsonObject[]): MeteredAnswer {
  const meter = anthropicMessages.createMeter()
  for (const event of events) meter.takeEvent(JSON.stringify(event))
  return meter.read()
}

const start = (usage: JsonObject): JsonObject => ({ type: 'message_start', message: { model: 'm-1', usage } })
const delta = (usage: JsonObject, stop = 'end_turn'): JsonObject => ({
  type: 'message_delta',
  delta: { stop_reason: stop },
  usage,
})
const STOP = { type: 'message_stop' }

describe('paths', () => {
  test.each([
    ['POST', '/v1/messages', 'generate'],
    ['POST', '/v1/messages/count_tokens', 'count'],
    ['GET', '/v1/models', 'models'],
    ['GET', '/v1/models/m', 'models'],
    ['HEAD', '/api/hello', 'hello'],
    ['GET', '/v1/messages', undefined],
    ['POST', '/v1/messages/batches', undefined],
    ['POST', '/v1/files', undefined],
    ['POST', '/v1/messages/', undefined],
    ['POST', '//v1/messages', undefined],
  ])('%s %s is %s', (method, path, kind) => {
    expect(anthropicMessages.parseOperation(method, path)?.kind).toBe(kind)
  })
})

describe('request', () => {
  test.each<[JsonObject, unknown]>([
    [{}, null],
    [{ thinking: { type: 'adaptive' } }, null],
    [{ thinking: { type: 'adaptive' }, output_config: { effort: 'xhigh' } }, { effort: 'xhigh' }],
    [{ output_config: { effort: 'low' } }, { effort: 'low' }],
    [{ thinking: { type: 'enabled', budget_tokens: 31_999 } }, { budgetTokens: 31_999 }],
    [{ thinking: { type: 'disabled' }, output_config: { effort: 'high' } }, { off: true }],
    [{ thinking: 'high', output_config: [1] }, null],
  ])('level of %j', (body, level) => {
    expect(read(body).level).toEqual(level)
  })

  test.each<[JsonObject, string[]]>([
    [
      {
        tools: [
          { name: 'Bash', input_schema: {} },
          { type: 'custom', name: 'x' },
        ],
      },
      [],
    ],
    [{ tools: [{ type: 'bash_20250124' }, { type: 'text_editor_20250728' }, { type: 'computer_20251124' }] }, []],
    [{ tools: [{ type: 'tool_search_tool_regex_20251119', name: 'x' }, { type: 'memory_20250818' }] }, []],
    [{ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, ['web_search_20250305']],
    [
      { tools: [{ type: 'web_fetch_20250910' }, { type: 'code_execution_20250825' }] },
      ['web_fetch_20250910', 'code_execution_20250825'],
    ],
    [{ tools: [{ type: 'advisor_20260301' }, { type: 'mcp_toolset' }] }, ['advisor_20260301', 'mcp_toolset']],
    [{ tools: [{ type: 'bash_20250124\nweb_search_20250305' }] }, ['bash_20250124\nweb_search_20250305']],
    [{ tools: [{ type: ['custom'] }] }, ['custom']],
    [{ mcp_servers: [{ type: 'url', url: 'https://example.com' }] }, ['mcp_servers']],
    [{ mcp_servers: [] }, []],
    [{ container: 'c1' }, ['container']],
    [{ messages: [{ role: 'user', content: [{ type: 'container_upload', file_id: 'f1' }] }] }, ['container_upload']],
    [{ messages: [{ role: 'user', content: [{ type: 'image', source: { file_id: 'f1' } }] }] }, ['file_id']],
    [{ system: [{ type: 'document', source: { type: 'file', file_id: 'f1' } }] }, ['file_id']],
    [{ fallbacks: [{ model: 'other' }] }, ['fallbacks']],
    [
      { messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'https://x' } }] }] },
      ['image by URL'],
    ],
    [{ messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', data: '' } }] }] }, []],
    [
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'tool_result', content: [{ type: 'document', source: { type: 'url', url: 'http://x' } }] },
            ],
          },
        ],
      },
      ['document by URL'],
    ],
    [
      {
        messages: [
          {
            role: 'user',
            content: [
              {
                type: 'document',
                source: { type: 'content', content: [{ type: 'image', source: { type: 'url', url: 'http://x' } }] },
              },
            ],
          },
        ],
      },
      ['image by URL'],
    ],
    // What the model wrote to a tool of the client is nobody's to fetch.
    [
      {
        messages: [
          { role: 'assistant', content: [{ type: 'tool_use', input: { type: 'image', source: { type: 'url' } } }] },
        ],
      },
      [],
    ],
  ])('lists server-side tools in %j', (body, hosted) => {
    expect(read(body).serverSideTools).toEqual(hosted)
  })

  test('reads the model and the limit', () => {
    expect(read({ max_tokens: 32_000 })).toMatchObject({
      model: 'm',
      outputTokens: 32_000,
    })
    expect(read({ max_tokens: 'many' })).toMatchObject({ outputTokens: null })
  })
})

test('forwards the body unchanged or with the right model', () => {
  const body = { model: 'm', output_config: { kept: [1] } }
  expect(anthropicMessages.rewriteBody(body, { model: 'm' })).toBe(body)
  expect(anthropicMessages.rewriteBody(body, { model: 'n' })).toEqual({ model: 'n', output_config: { kept: [1] } })
})

describe('metering', () => {
  const usage = {
    input_tokens: 10,
    cache_read_input_tokens: 300,
    cache_creation_input_tokens: 100,
    output_tokens: 1,
    cache_creation: { ephemeral_5m_input_tokens: 60, ephemeral_1h_input_tokens: 40 },
    service_tier: 'standard',
  }

  test('combines the first and the last count', () => {
    const end = { output_tokens: 50, output_tokens_details: { thinking_tokens: 20 } }
    expect(meterEvents(start(usage), { type: 'ping' }, delta({ output_tokens: 30 }), delta(end), STOP)).toMatchObject({
      usage: { input: 10, cacheRead: 300, cacheWrite5m: 60, cacheWrite1h: 40, output: 50, reasoning: 20 },
      model: 'm-1',
      isComplete: true,
      isRefusal: false,
      serviceTier: 'standard',
    })
  })

  test('prefers the input count at the end', () => {
    const end = { input_tokens: 12, cache_read_input_tokens: null, cache_creation_input_tokens: 100, output_tokens: 5 }
    expect(meterEvents(start(usage), delta(end)).usage).toEqual({
      input: 12,
      cacheRead: 300,
      cacheWrite5m: 60,
      cacheWrite1h: 40,
      output: 5,
      reasoning: 0,
    })
  })

  test('counts unsplit cache writes as five minutes', () => {
    const { cache_creation: _, ...unsplit } = usage
    expect(meterEvents(start(unsplit), delta({ output_tokens: 5 })).usage).toMatchObject({
      cacheWrite5m: 100,
      cacheWrite1h: 0,
    })
  })

  test('adds the cost of a compaction', () => {
    const iterations = [
      { type: 'compaction', input_tokens: 1000, output_tokens: 70 },
      { type: 'message', input_tokens: 10, output_tokens: 5 },
    ]
    expect(meterEvents(start(usage), delta({ output_tokens: 5, iterations })).usage).toMatchObject({
      input: 1010,
      output: 75,
    })
  })

  test.each<[string, JsonObject[]]>([
    ['nothing', []],
    ['a beginning', [start(usage)]],
    ['an end without a beginning', [delta({ output_tokens: 5 })]],
    ['an end without a count', [start(usage), delta({})]],
    ['a negative count', [start(usage), delta({ output_tokens: -5 })]],
    ['a count that cannot be', [start(usage), delta({ output_tokens: 1e18 })]],
  ])('%s has no usage', (_, events) => {
    expect(meterEvents(...events).usage).toBeUndefined()
  })

  test('reads a whole answer with a refusal', () => {
    const meter = anthropicMessages.createMeter()
    meter.takeBody({ type: 'message', model: 'm-2', stop_reason: 'refusal', usage: { ...usage, speed: 'fast' } })
    expect(meter.read()).toMatchObject({ model: 'm-2', isComplete: true, isRefusal: true, serviceTier: 'fast' })
    expect(meter.read().usage).toMatchObject({ input: 10, output: 1 })
  })

  test('does not read an error as an answer', () => {
    const meter = anthropicMessages.createMeter()
    meter.takeBody(anthropicMessages.formatError(529, 'overloaded', 'Later.'))
    expect(meter.read()).toMatchObject({
      usage: undefined,
      model: null,
      isComplete: false,
      isRefusal: false,
      serviceTier: null,
    })
  })
})

test.each([
  [402, 'billing_error'],
  [404, 'not_found_error'],
  [418, 'invalid_request_error'],
  [500, 'api_error'],
])('status %i has its own error type', (status, type) => {
  expect(anthropicMessages.formatError(status, 'code', 'Text.')).toEqual({
    type: 'error',
    error: { type, message: 'Text.', code: 'code' },
  })
})
