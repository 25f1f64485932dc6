import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../harnesses/json.ts'
import type { MeteredAnswer } from '../wire-protocol.ts'
import { gemini } from './gemini.ts'

const read = (body: JsonObject) => gemini.parseRequest({ kind: 'generate', model: 'm' }, body)
const thinking = (thinkingConfig: JsonObject): JsonObject => ({ generationConfig: { thinkingConfig } })

function meterEvents(...events: JsonObject[]): MeteredAnswer {
  const meter = gemini.createMeter()
  for (const event of events) meter.takeEvent(JSON.stringify(event))
  return meter.read()
}

test.each<[string, string, object | undefined]>([
  ['POST', '/v1beta/models/m-1.5:generateContent', { kind: 'generate', model: 'm-1.5' }],
  ['POST', '/v1beta/models/m:streamGenerateContent', { kind: 'generate', model: 'm' }],
  ['POST', '/v1/models/m:generateContent', { kind: 'generate', model: 'm' }],
  ['POST', '/v1beta/models/m%2D1:countTokens', { kind: 'count', model: 'm-1' }],
  ['GET', '/v1beta/models', { kind: 'models', model: null }],
  ['POST', '/v1beta/models/%:generateContent', undefined],
  ['POST', '/v1beta/models/:generateContent', undefined],
  ['POST', '/v1beta/models/m:batchGenerateContent', undefined],
  ['POST', '/v1beta/cachedContents', undefined],
  ['POST', '/upload/v1beta/files', undefined],
  ['GET', '/v1beta/models/m:generateContent', undefined],
])('%s %s is %j', (method, path, operation) => {
  expect(gemini.parseOperation(method, path)).toEqual(operation)
})

describe('forwarding', () => {
  test('rewrites the model in the path', () => {
    const path = '/v1beta/models/m%2D1:streamGenerateContent'
    expect(gemini.rewritePath(path, { model: 'm-1' })).toBe(path)
    expect(gemini.rewritePath(path, { model: 'n/../x' })).toBe('/v1beta/models/n%2F..%2Fx:streamGenerateContent')
    expect(gemini.rewritePath('/v1beta/models', { model: 'n' })).toBe('/v1beta/models')
  })

  test('corrects a body that names another model', () => {
    const right = { contents: [], model: 'models/m' }
    expect(gemini.rewriteBody(right, { model: 'm' })).toBe(right)
    const counted = { generateContentRequest: { model: 'models/other', contents: [1] }, model: 'models/other' }
    expect(gemini.rewriteBody(counted, { model: 'm' })).toEqual({
      generateContentRequest: { model: 'models/m', contents: [1] },
      model: 'models/m',
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
  [{ generationConfig: { routingConfig: { manualMode: { modelName: 'x' } } } }, ['routingConfig']],
  [{ generation_config: { model_config: { featureSelectionPreference: 'PRIORITIZE_QUALITY' } } }, ['model_config']],
  [{ contents: [{ parts: [{ fileData: { fileUri: 'https://x' } }] }] }, ['fileData']],
  [{ contents: [{ parts: { file_data: { file_uri: 'https://x' } } }] }, ['fileData']],
  [{ system_instruction: { parts: { fileData: {} } } }, ['fileData']],
  [{ contents: [{ parts: [{ functionResponse: { parts: [{ fileData: {} }] } }] }] }, ['fileData']],
  [{ contents: [{ parts: [{ inlineData: { data: 'AA' } }, { functionCall: { args: { fileData: 1 } } }] }] }, []],
])('lists server-side tools in %j', (body, hosted) => {
  expect(read(body).serverSideTools).toEqual(hosted)
})

test('reads the model from the path and the limit from the body', () => {
  const generationConfig = { maxOutputTokens: 100, candidateCount: 2 }
  expect(read({ generationConfig })).toMatchObject({ model: 'm', outputTokens: 200 })
})

describe('metering', () => {
  const usageMetadata = {
    promptTokenCount: 1200,
    cachedContentTokenCount: 300,
    candidatesTokenCount: 30,
    thoughtsTokenCount: 20,
    toolUsePromptTokenCount: 7,
  }
  const whole = { input: 907, cacheRead: 300, cacheWrite5m: 0, cacheWrite1h: 0, output: 50, reasoning: 20 }
  const first = { candidates: [{ content: {} }], usageMetadata: { promptTokenCount: 1200 }, modelVersion: 'm-1' }
  const end = (finishReason: string): JsonObject => ({
    candidates: [{ finishReason }],
    usageMetadata,
    modelVersion: 'm-1',
  })

  test('uses the last count', () => {
    expect(meterEvents(first, end('STOP'))).toMatchObject({
      usage: whole,
      model: 'm-1',
      isComplete: true,
      isRefusal: false,
      serviceTier: null,
    })
  })

  test('reports no usage for a cut stream', () => {
    expect(meterEvents(first)).toMatchObject({ usage: undefined, isComplete: false })
  })

  test('reads a stream without server-sent events as a list', () => {
    const meter = gemini.createMeter()
    meter.takeBody([first, end('MAX_TOKENS')])
    expect(meter.read()).toMatchObject({ usage: whole, isComplete: true })
  })

  test.each<JsonObject>([
    end('SAFETY'),
    end('PROHIBITED_CONTENT'),
    { promptFeedback: { blockReason: 'OTHER' }, usageMetadata },
  ])('%j is a refusal', (event) => {
    expect(meterEvents(event)).toMatchObject({ isRefusal: true, isComplete: true, usage: whole })
  })

  test('reads an answer that contains only thoughts', () => {
    const counts = { promptTokenCount: 5, thoughtsTokenCount: 9, serviceTier: 'FLEX' }
    expect(meterEvents({ ...end('STOP'), usageMetadata: counts })).toMatchObject({
      usage: { input: 5, output: 9, reasoning: 9 },
      serviceTier: 'flex',
    })
  })
})

test('formats errors like the provider', () => {
  expect(gemini.formatError(402, 'budget_exhausted', 'Spent.')).toMatchObject({
    error: { code: 402, message: 'Spent.', status: 'FAILED_PRECONDITION' },
  })
  expect(gemini.authHeaders('k')).toEqual({ 'x-goog-api-key': 'k' })
})
