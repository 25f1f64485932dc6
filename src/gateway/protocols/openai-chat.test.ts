import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../harnesses/json.ts'
import type { MeteredAnswer } from '../wire-protocol.ts'
import { openaiChat } from './openai-chat.ts'

const read = (body: JsonObject) => openaiChat.parseRequest({ kind: 'generate', model: null }, body)

function meterEvents(...events: (JsonObject | string)[]): MeteredAnswer {
  const meter = openaiChat.createMeter()
  for (const event of events) meter.takeEvent(typeof event === 'string' ? event : JSON.stringify(event))
  return meter.read()
}

const chunk = (choice: JsonObject, more: JsonObject = {}): JsonObject => ({ model: 'm-1', choices: [choice], ...more })
const END = chunk({ delta: {}, finish_reason: 'stop' })
const counted = (usage: JsonObject): JsonObject => ({ model: 'm-1', choices: [], usage })

test.each([
  ['POST', '/v1/chat/completions', 'generate'],
  ['GET', '/v1/models', 'models'],
  ['GET', '/v1/chat/completions', undefined],
  ['POST', '/v1/completions', undefined],
  ['POST', '/v1/embeddings', undefined],
])('%s %s is %s', (method, path, kind) => {
  expect(openaiChat.parseOperation(method, path)?.kind).toBe(kind)
})

describe('forwarding', () => {
  test('turns on usage reporting in a stream', () => {
    const body = { model: 'm', stream: true, stream_options: { other: 1 } }
    expect(openaiChat.rewriteBody(body, { model: 'm' })).toEqual({
      model: 'm',
      stream: true,
      stream_options: { other: 1, include_usage: true },
    })
  })

  test.each<JsonObject>([
    { model: 'm' },
    { model: 'm', stream: false },
    { model: 'm', stream: true, stream_options: { include_usage: true } },
  ])('forwards %j unchanged', (body) => {
    expect(openaiChat.rewriteBody(body, { model: 'm' })).toBe(body)
  })
})

test.each<[JsonObject, unknown]>([
  [{}, null],
  [{ reasoning_effort: 'high' }, { effort: 'high' }],
  [{ reasoning_effort: 'none' }, { effort: 'none' }],
  [{ reasoning: { effort: 'xhigh' } }, { effort: 'xhigh' }],
  [{ reasoning: false }, { off: true }],
  [{ reasoning: { enabled: false } }, { off: true }],
  [{ reasoning: { max_tokens: 2000 } }, { budgetTokens: 2000 }],
  [{ thinking: { type: 'disabled' }, reasoning_effort: 'high' }, { off: true }],
  [{ thinking: { type: 'enabled' }, reasoning_effort: 'max' }, { effort: 'max' }],
  [{ thinking: { type: 'enabled' } }, null],
  [{ enable_thinking: false }, { off: true }],
  [{ enable_thinking: true, thinking_budget: 512 }, { budgetTokens: 512 }],
  [{ chat_template_kwargs: { enable_thinking: false } }, { off: true }],
])('level of %j', (body, level) => {
  expect(read(body).level).toEqual(level)
})

test.each<[JsonObject, string[]]>([
  [
    {
      tools: [
        { type: 'function', function: { name: 'f' } },
        { type: 'custom', custom: {} },
      ],
    },
    [],
  ],
  [{ tools: [{ type: 'web_search' }] }, ['web_search']],
  [{ tools: [{ type: 'builtin_function', function: { name: '$web_search' } }] }, ['builtin_function']],
  [{ web_search_options: {} }, ['web_search_options']],
  [{ search_parameters: { mode: 'on' } }, ['search_parameters']],
  [{ search_parameters: { mode: 'off' } }, []],
  [{ enable_search: true }, ['enable_search']],
  [{ enable_search: false, plugins: [] }, []],
  [{ plugins: [{ id: 'web' }], models: ['other'] }, ['plugins', 'models']],
  [{ messages: [{ content: [{ type: 'image_url', image_url: { url: 'https://x/a.png' } }] }] }, ['image_url']],
  [{ messages: [{ content: [{ type: 'image_url', image_url: 'http://x' }] }] }, ['image_url']],
  [
    {
      messages: [{ content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==', detail: 'low' } }] }],
    },
    [],
  ],
  [{ messages: [{ content: [{ type: 'file', file: { file_data: ' https://x/a.pdf' } }] }] }, ['file']],
  [
    { messages: [{ content: [{ type: 'input_audio', input_audio: { data: 'https://x', format: 'wav' } }] }] },
    ['input_audio'],
  ],
  [{ messages: [{ content: [{ type: 'document_url', document_url: 'x' }] }] }, ['document_url']],
  [{ messages: [{ content: [{ type: 'text', text: 'https://example.com' }] }] }, []],
  [{ messages: [{ content: 'https://example.com' }] }, []],
  [{ tools: [{ web_search: {} }] }, ['tool without type']],
  [{ messages: [{ role: 'tool', content: [{ type: 'video_url', video_url: { url: 'oss://x' } }] }] }, ['video_url']],
])('lists server-side tools in %j', (body, hosted) => {
  expect(read(body).serverSideTools).toEqual(hosted)
})

test('multiplies the limit by the number of alternatives', () => {
  expect(read({ max_tokens: 100 }).outputTokens).toBe(100)
  expect(read({ max_completion_tokens: 200, max_tokens: 100, n: 3 }).outputTokens).toBe(600)
  expect(read({ n: 3 }).outputTokens).toBeNull()
})

describe('metering', () => {
  const usage = {
    prompt_tokens: 1200,
    completion_tokens: 50,
    total_tokens: 1250,
    prompt_tokens_details: { cached_tokens: 300, cache_write_tokens: 100 },
    completion_tokens_details: { reasoning_tokens: 20 },
  }
  const whole = { input: 800, cacheRead: 300, cacheWrite5m: 100, cacheWrite1h: 0, output: 50, reasoning: 20 }

  test('reads usage that comes after the end', () => {
    const said = chunk({ delta: { content: 'Hello' }, finish_reason: null }, { usage: null, service_tier: 'flex' })
    expect(meterEvents(said, END, counted(usage), '[DONE]')).toMatchObject({
      usage: whole,
      model: 'm-1',
      isComplete: true,
      isRefusal: false,
      serviceTier: 'flex',
    })
  })

  test.each<[string, (JsonObject | string)[]]>([
    ['a stream that nobody asked for its usage', [END, '[DONE]']],
    ['a stream that counts along, cut off', [counted(usage), counted({ ...usage, completion_tokens: 60 })]],
    ['a count that is none', [END, counted({ prompt_tokens: '12', completion_tokens: 5 })]],
    ['half a count', [END, counted({ prompt_tokens: 12 })]],
  ])('%s has no usage', (_, events) => {
    expect(meterEvents(...events).usage).toBeUndefined()
  })

  test.each<[string, JsonObject, object]>([
    ['in the choice', chunk({ finish_reason: 'stop', usage }), whole],
    [
      'beside the others',
      { ...END, usage: { ...usage, prompt_tokens_details: null, cached_tokens: 7 } },
      { input: 1193, cacheRead: 7 },
    ],
    [
      'as hits',
      { ...END, usage: { ...usage, prompt_tokens_details: null, prompt_cache_hit_tokens: 9 } },
      { cacheRead: 9 },
    ],
    ['thoughts apart', { ...END, usage: { ...usage, total_tokens: 1270 } }, { output: 70, reasoning: 20 }],
    [
      'more cached than sent',
      { ...END, usage: { ...usage, prompt_tokens: 100 } },
      { input: 0, cacheRead: 100, cacheWrite5m: 0 },
    ],
  ])('reads usage of compatible providers: %s', (_, event, expected) => {
    expect(meterEvents(event).usage).toMatchObject(expected)
  })

  test('reads a whole answer', () => {
    const meter = openaiChat.createMeter()
    meter.takeBody({ model: 'm-2', choices: [{ finish_reason: 'stop', message: { refusal: 'No.' } }], usage })
    expect(meter.read()).toMatchObject({
      usage: whole,
      model: 'm-2',
      isComplete: true,
      isRefusal: true,
      serviceTier: null,
    })
  })

  test.each<JsonObject>([{ finish_reason: 'content_filter' }, { delta: { refusal: 'I will not.' } }])(
    '%j is a refusal',
    (choice) => {
      expect(meterEvents(chunk(choice)).isRefusal).toBe(true)
    },
  )
})

test('formats errors like the provider', () => {
  expect(openaiChat.formatError(402, 'budget_exhausted', 'Spent.')).toEqual({
    error: { message: 'Spent.', type: 'insufficient_quota', param: null, code: 'budget_exhausted' },
  })
  expect(openaiChat.authHeaders('k')).toEqual({ authorization: 'Bearer k' })
})
