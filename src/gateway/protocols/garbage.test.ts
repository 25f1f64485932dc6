import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Json, JsonObject } from '../../harnesses/json.ts'
import { wireProtocols } from '../protocols.ts'
import type { MeteredAnswer } from '../wire-protocol.ts'
import { objectOf } from './fields.ts'

// The words of all four protocols: garbage that is made of them gets further in than any other.
const WORDS = [
  ...['model', 'messages', 'content', 'tools', 'type', 'url', 'source', 'thinking', 'output_config', 'effort', 'input'],
  ...[
    'stream',
    'stream_options',
    'n',
    'max_tokens',
    'reasoning',
    'image_url',
    'namespace',
    'additional_tools',
    'output',
  ],
  ...[
    'contents',
    'parts',
    'fileData',
    'generationConfig',
    'thinkingConfig',
    'thinkingBudget',
    'generateContentRequest',
  ],
  ...['usage', 'usageMetadata', 'promptTokenCount', 'message_start', 'message_delta', 'message', 'delta', 'iterations'],
  ...['input_tokens', 'output_tokens', 'prompt_tokens', 'completion_tokens', 'choices', 'finish_reason', 'response'],
  ...['response.completed', 'candidates', 'finishReason', 'cache_creation', 'status', '__proto__', 'constructor'],
]

const word = fc.constantFrom(...WORDS)
const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 6 },
    fc.constantFrom<Json>(null, true, false, 0, -1, 7, 1.5, 1e300, ''),
    fc.oneof(word, fc.string()),
    fc.array(tie('json'), { maxLength: 4 }),
    fc.array(fc.tuple(fc.oneof(word, fc.string()), tie('json')), { maxLength: 6 }).map(
      (entries): Json =>
        // As a parser makes it: every name is an own one.
        JSON.parse(`{${entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`),
    ),
  ),
}))

const piece = fc.constantFrom('/', 'v1', 'v1beta', 'models', 'm', ':', 'generateContent', 'messages', '%', '%2F', '..')
const path = fc.array(fc.oneof(piece, fc.string())).map((pieces) => pieces.join(''))

const isCount = (count: number): boolean => Number.isSafeInteger(count) && count >= 0

function expectSound({ usage, model }: MeteredAnswer): void {
  expect(model === null || typeof model === 'string').toBe(true)
  if (!usage) return
  expect(Object.values(usage).every(isCount)).toBe(true)
  expect(usage.reasoning).toBeLessThanOrEqual(usage.output)
}

describe.each(Object.values(wireProtocols))('$protocol', (wire) => {
  const operation = { kind: 'generate', model: 'm' } as const

  test('parses and rewrites any body', () => {
    fc.assert(
      fc.property(json, (any) => {
        const body = objectOf(any)
        const asked = wire.parseRequest(operation, body)
        expect(asked.serverSideTools.every((name) => typeof name === 'string')).toBe(true)
        const sent = wire.rewriteBody(body, { model: 'm' })
        // What was put right once is right.
        expect(wire.rewriteBody(sent, { model: 'm' })).toBe(sent)
        expect(wire.parseRequest(operation, sent).serverSideTools).toEqual(asked.serverSideTools)
      }),
    )
  })

  test('meters any answer', () => {
    fc.assert(
      fc.property(fc.array(json), fc.string(), (answers, text) => {
        const meter = wire.createMeter()
        meter.takeEvent(text)
        for (const answer of answers) {
          meter.takeEvent(JSON.stringify(answer))
          expectSound(meter.read())
        }
        for (const answer of answers) meter.takeBody(answer)
        expectSound(meter.read())
      }),
    )
  })

  test('reads any path', () => {
    fc.assert(
      fc.property(fc.constantFrom('GET', 'POST', 'HEAD', 'PUT'), path, (method, given) => {
        const found = wire.parseOperation(method, given)
        expect(found === undefined || typeof found.kind === 'string').toBe(true)
        expect(typeof wire.rewritePath(given, { model: 'm' })).toBe('string')
      }),
    )
  })

  test('handles deeply nested input', () => {
    const deep: Json = JSON.parse(`${'{"tools":[{"content":[{"parts":['.repeat(30_000)}1${']}]}]}'.repeat(30_000)}`)
    const namespaces: Json = JSON.parse(
      `${'{"type":"namespace","tools":['.repeat(50_000)}{"type":"mcp"}${']}'.repeat(50_000)}`,
    )
    const bodies: JsonObject[] = [objectOf(deep), { tools: [namespaces] }, { input: [objectOf(deep)] }]
    for (const body of bodies) {
      expect(wire.parseRequest(operation, body).model).toBe(wire.protocol === 'gemini' ? 'm' : null)
      wire.createMeter().takeBody(body)
    }
  })
})

test('finds a server-side tool at any depth of namespaces', () => {
  const tools: Json = JSON.parse(
    `[${'{"type":"namespace","tools":['.repeat(50_000)}{"type":"mcp"}${']}'.repeat(50_000)}]`,
  )
  expect(
    wireProtocols['openai-responses'].parseRequest({ kind: 'generate', model: null }, { tools }).serverSideTools,
  ).toEqual(['mcp'])
})
