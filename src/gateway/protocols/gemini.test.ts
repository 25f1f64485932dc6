import { describe, expect, test } from 'vitest'
import type { JsonObject, Metered } from '../wire.ts'
import { gemini } from './gemini.ts'

const read = (body: JsonObject) => gemini.read({ kind: 'generate', model: 'm', isStream: true }, body)
const thinking = (thinkingConfig: JsonObject): JsonObject => ({ generationConfig: { thinkingConfig } })

function heard(...events: JsonObject[]): Metered {
  const meter = gemini.newMeter()
  for (const event of events) meter.event(JSON.stringify(event))
  return meter.read()
}

test.each<[string, string, object | undefined]>([
  ['POST', '/v1beta/models/m-1.5:generateContent', { kind: 'generate', model: 'm-1.5', isStream: false }],
  ['POST', '/v1beta/models/m:streamGenerateContent', { kind: 'generate', model: 'm', isStream: true }],
  ['POST', '/v1/models/m:generateContent', { kind: 'generate', model: 'm', isStream: false }],
  ['POST', '/v1beta/models/m%2D1:countTokens', { kind: 'count', model: 'm-1' }],
  ['GET', '/v1beta/models', { kind: 'models', model: null }],
  ['POST', '/v1beta/models/%:generateContent', undefined],
  ['POST', '/v1beta/models/:generateContent', undefined],
  ['POST', '/v1beta/models/m:batchGenerateContent', undefined],
  ['POST', '/v1beta/cachedContents', undefined],
  ['POST', '/upload/v1beta/files', undefined],
  ['GET', '/v1beta/models/m:generateContent', undefined],
])('%s %s is %j', (method, path, operation) => {
  expect(gemini.operation(method, path)).toEqual(operation)
})

describe('what is sent on', () => {
  test('the path has the right model', () => {
    const path = '/v1beta/models/m%2D1:streamGenerateContent'
    expect(gemini.rewrittenPath(path, { model: 'm-1' })).toBe(path)
    expect(gemini.rewrittenPath(path, { model: 'n/../x' })).toBe('/v1beta/models/n%2F..%2Fx:streamGenerateContent')
    expect(gemini.rewrittenPath('/v1beta/models', { model: 'n' })).toBe('/v1beta/models')
  })

  test('a body that names another model is put right', () => {
    const right = { contents: [], model: 'models/m' }
    expect(gemini.rewritten(right, { model: 'm' })).toBe(right)
    const counted = { generateContentRequest: { model: 'models/other', contents: [1] }, model: 'models/other' }
    expect(gemini.rewritten(counted, { model: 'm' })).toEqual({
      ...{ generateContentRequest: { model: 'models/m', contents: [1] }, model: 'models/m' },
    })
  })
})

test.each<[JsonObject, unknown]>([
  [{}, null],
  [thinking({ includeThoughts: true }), null],
  [thinking({ thinkingLevel: 'LOW' }), { effort: 'low' }],
  [thinking({ thinkingBudget: 8192 }), { budgetTokens: 8192 }],
  [thinking({ thinkingBudget: -1 }), { budgetTokens: -1 }],
  [thinking({ thinkingBudget: 0 }), { off: true }],
  [{ generation_config: { thinking_config: { thinking_level: 'high' } } }, { effort: 'high' }],
])('level of %j', (body, level) => {
  expect(read(body).level).toEqual(level)
})

test.each<[JsonObject, string[]]>([
  [{ tools: [{ functionDeclarations: [{ name: 'f' }] }, { function_declarations: [] }] }, []],
  [{ tools: [{ googleSearch: {} }] }, ['googleSearch']],
  [{ tools: [{ functionDeclarations: [], google_search: {} }] }, ['google_search']],
  [{ tools: { urlContext: {} } }, ['urlContext']],
  [{ tools: [{ codeExecution: {} }, { mcpServers: [] }] }, ['codeExecution', 'mcpServers']],
  [{ generateContentRequest: { tools: [{ googleMaps: {} }] } }, ['googleMaps']],
  [{ cachedContent: 'cachedContents/1' }, ['cachedContent']],
  [{ contents: [{ parts: [{ fileData: { fileUri: 'https://x' } }] }] }, ['fileData']],
  [{ contents: [{ parts: { file_data: { file_uri: 'https://x' } } }] }, ['fileData']],
  [{ system_instruction: { parts: { fileData: {} } } }, ['fileData']],
  [{ contents: [{ parts: [{ functionResponse: { parts: [{ fileData: {} }] } }] }] }, ['fileData']],
  [{ contents: [{ parts: [{ inlineData: { data: 'AA' } }, { functionCall: { args: { fileData: 1 } } }] }] }, []],
])('hosted in %j', (body, hosted) => {
  expect(read(body).hosted).toEqual(hosted)
})

test('the stream is in the path, the limit in the body', () => {
  const generationConfig = { maxOutputTokens: 100, candidateCount: 2 }
  expect(read({ generationConfig })).toMatchObject({ model: 'm', isStream: true, outputTokens: 200 })
})

describe('what is metered', () => {
  const usageMetadata = {
    ...{ promptTokenCount: 1200, cachedContentTokenCount: 300, candidatesTokenCount: 30, thoughtsTokenCount: 20 },
    toolUsePromptTokenCount: 7,
  }
  const whole = { input: 907, cacheRead: 300, cacheWrite5m: 0, cacheWrite1h: 0, output: 50, reasoning: 20 }
  const first = { candidates: [{ content: {} }], usageMetadata: { promptTokenCount: 1200 }, modelVersion: 'm-1' }
  const end = (finishReason: string): JsonObject => ({
    candidates: [{ finishReason }],
    usageMetadata,
    modelVersion: 'm-1',
  })

  test('the last count is the whole', () => {
    expect(heard(first, end('STOP'))).toMatchObject({
      ...{ usage: whole, model: 'm-1', isComplete: true, isRefusal: false, serviceTier: null },
    })
  })

  test('a stream that is cut has none', () => {
    expect(heard(first)).toMatchObject({ usage: undefined, isComplete: false })
  })

  test('without server-sent events a stream is a list', () => {
    const meter = gemini.newMeter()
    meter.body([first, end('MAX_TOKENS')])
    expect(meter.read()).toMatchObject({ usage: whole, isComplete: true })
  })

  test.each<JsonObject>([
    end('SAFETY'),
    end('PROHIBITED_CONTENT'),
    { promptFeedback: { blockReason: 'OTHER' }, usageMetadata },
  ])('%j refuses', (event) => {
    expect(heard(event)).toMatchObject({ isRefusal: true, isComplete: true, usage: whole })
  })

  test('an answer of thoughts alone', () => {
    const counts = { promptTokenCount: 5, thoughtsTokenCount: 9, serviceTier: 'FLEX' }
    expect(heard({ ...end('STOP'), usageMetadata: counts })).toMatchObject({
      ...{ usage: { input: 5, output: 9, reasoning: 9 }, serviceTier: 'flex' },
    })
  })
})

test('an error looks like the provider’s own', () => {
  expect(gemini.problem(402, 'budget_exhausted', 'Spent.')).toMatchObject({
    error: { code: 402, message: 'Spent.', status: 'FAILED_PRECONDITION' },
  })
  expect(gemini.headers('k')).toEqual({ 'x-goog-api-key': 'k' })
})
