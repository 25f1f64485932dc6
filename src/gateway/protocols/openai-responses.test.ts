import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../harnesses/json.ts'
import type { MeteredAnswer } from '../wire-protocol.ts'
import { openaiResponses } from './openai-responses.ts'

const read = (body: JsonObject) => openaiResponses.parseRequest({ kind: 'generate', model: null }, body)

function meterEvents(...events: JsonObject[]): MeteredAnswer {
  const meter = openaiResponses.createMeter()
  for (const event of events) meter.takeEvent(JSON.stringify(event))
  return meter.read()
}

test.each([
  ['POST', '/v1/responses', 'generate'],
  ['POST', '/v1/responses/compact', 'generate'],
  ['POST', '/v1/responses/input_tokens', 'count'],
  ['GET', '/v1/responses', 'upgrade'],
  ['GET', '/v1/responses/resp_1', undefined],
  ['DELETE', '/v1/responses/resp_1', undefined],
  ['POST', '/v1/conversations', undefined],
])('%s %s is %s', (method, path, kind) => {
  expect(openaiResponses.parseOperation(method, path)?.kind).toBe(kind)
})

test.each<[JsonObject, unknown]>([
  [{}, null],
  [{ reasoning: { effort: 'max', summary: 'auto' } }, { effort: 'max' }],
  [{ reasoning: { effort: 'none' } }, { effort: 'none' }],
  [{ reasoning: { effort: 3 } }, null],
])('level of %j', (body, level) => {
  expect(read(body).level).toEqual(level)
})

const additional = (...tools: JsonObject[]): JsonObject => ({
  input: [{ type: 'additional_tools', role: 'developer', tools }],
})

test.each<[JsonObject, string[]]>([
  [{ tools: [{ type: 'function', name: 'f' }, { type: 'custom', name: 'exec' }, { type: 'local_shell' }] }, []],
  [{ tools: [{ type: 'tool_search', execution: 'client' }, { type: 'apply_patch' }] }, []],
  [{ tools: [{ type: 'web_search_preview' }, { type: 'web_search' }] }, ['web_search', 'web_search_preview']],
  [{ tools: [{ type: 'file_search' }, { type: 'code_interpreter' }] }, ['code_interpreter', 'file_search']],
  [{ tools: [{ type: 'image_generation' }] }, ['image_generation']],
  [{ tools: [{ type: 'mcp', server_url: 'https://x' }] }, ['mcp']],
  [{ tools: [{ type: 'shell', environment: { type: 'container_auto' } }] }, ['shell']],
  [{ tools: [{ type: 'shell', environment: { type: 'local' } }] }, []],
  [{ tools: [{ type: 'namespace', tools: [{ type: 'namespace', tools: [{ type: 'mcp' }] }] }] }, ['mcp']],
  [additional({ type: 'namespace', name: 'n', tools: [{ type: 'function' }] }), []],
  [additional({ type: 'namespace', name: 'n', tools: [{ type: 'web_search' }] }), ['web_search']],
  [{ input: [{ type: 'tool_search_output', tools: [{ type: 'mcp' }] }] }, ['mcp']],
  [{ prompt: { id: 'p' } }, ['prompt']],
  [{ background: true }, ['background']],
  [{ input: [{ type: 'item_reference', id: 'msg_1' }] }, ['item_reference']],
  [{ input: [{ id: 'msg_1' }] }, ['item_reference']],
  [{ input: [{ id: 'msg_1', role: 'assistant', content: 'x' }] }, []],
  [{ background: false, prompt: null }, []],
  [{ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'https://x' }] }] }, ['image_url']],
  [{ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'DATA:image/png;base64,AA' }] }] }, []],
  [{ input: [{ role: 'user', content: [{ type: 'input_file', file_url: 'https://x' }] }] }, ['file_url']],
  [
    { input: [{ type: 'function_call_output', output: [{ type: 'input_image', image_url: 'http://x' }] }] },
    ['image_url'],
  ],
  [{ input: [{ type: 'computer_call_output', output: { image_url: 'http://x' } }] }, ['image_url']],
  [{ input: [{ type: 'function_call', arguments: '{"image_url":"https://x"}' }] }, []],
])('lists server-side tools in %j', (body, hosted) => {
  expect(read(body).serverSideTools.sort()).toEqual(hosted)
})

describe('metering', () => {
  const usage = {
    input_tokens: 1200,
    input_tokens_details: { cached_tokens: 300, cache_write_tokens: 100 },
    output_tokens: 50,
    output_tokens_details: { reasoning_tokens: 20 },
  }
  const whole = { input: 800, cacheRead: 300, cacheWrite5m: 100, cacheWrite1h: 0, output: 50, reasoning: 20 }
  const created = { type: 'response.created', response: { model: 'm-0', status: 'in_progress', usage: null } }
  const ended = (status: string, more: JsonObject = {}): JsonObject => ({
    type: `response.${status}`,
    response: { model: 'm-1', status, usage, service_tier: 'priority', ...more },
  })

  test.each([
    ['completed', true],
    ['incomplete', true],
    ['failed', false],
  ])('reads the usage of %s', (status, isComplete) => {
    expect(meterEvents(created, ended(status))).toMatchObject({
      usage: whole,
      model: 'm-1',
      isComplete,
      isRefusal: false,
      serviceTier: 'priority',
    })
  })

  test('reports no usage before the end', () => {
    expect(meterEvents(created)).toMatchObject({ usage: undefined, model: 'm-0', isComplete: false })
  })

  test('does not read text about an end as an end', () => {
    expect(
      meterEvents({ type: 'response.output_text.delta', delta: JSON.stringify(ended('completed')) }).usage,
    ).toBeUndefined()
  })

  test.each<JsonObject[]>([
    [ended('completed', { output: [{ type: 'message', content: [{ type: 'refusal', refusal: 'No.' }] }] })],
    [ended('incomplete', { incomplete_details: { reason: 'content_filter' } })],
    [{ type: 'response.refusal.done', refusal: 'No.' }, ended('completed')],
  ])('%j is a refusal', (...events) => {
    expect(meterEvents(...events)).toMatchObject({ isRefusal: true, usage: whole })
  })

  test.each<[JsonObject, boolean]>([
    [{ object: 'response', model: 'm', status: 'completed', usage }, true],
    [{ object: 'response.compaction', model: 'm', output: [], usage }, true],
    [{ error: { message: 'No.' } }, false],
  ])('reads a whole answer %j', (body, isComplete) => {
    const meter = openaiResponses.createMeter()
    meter.takeBody(body)
    expect(meter.read()).toMatchObject({ isComplete, usage: isComplete ? whole : undefined })
  })
})
