import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import {
  beginEvents,
  message,
  messagesRequest,
  openGatewayFixture,
  sendJson,
  TERMS,
} from '../../test/support/gateway/gateway.ts'
import { createLog } from '../platform/log.ts'

// Usage that a provider leaves out, or that it cannot have had.

const CHAT = '/v1/chat/completions'
const RESPONSES = '/v1/responses'
const GEMINI = '/v1beta/models/large-1:generateContent'
const chat = { model: 'large-1', messages: [], reasoning_effort: 'high', max_tokens: 1000 }
const responses = { model: 'large-1', input: 'x', reasoning: { effort: 'high' }, max_output_tokens: 1000 }
const gemini = { contents: [{ parts: [{ text: 'x' }] }], generationConfig: { maxOutputTokens: 1000 } }
const messages = messagesRequest({ max_tokens: 1000 })
const TEXT = 'x'.repeat(400) // 100 tokens at four bytes each

const choice = (more: object) => ({ choices: [{ finish_reason: 'stop', message: more }] })
const output = (...items: object[]) => ({ object: 'response', status: 'completed', output: items })
const parts = (...list: object[]) => ({ candidates: [{ finishReason: 'STOP', content: { parts: list } }] })
const blocks = (...content: object[]) => message({ content, usage: undefined })

describe('a whole answer without usage is estimated from its text', () => {
  test.each<[string, object, object]>([
    [CHAT, chat, choice({ content: TEXT })],
    [CHAT, chat, choice({ content: [{ type: 'text', text: TEXT }] })],
    [CHAT, chat, choice({ content: null, reasoning_content: TEXT })],
    [CHAT, chat, choice({ tool_calls: [{ function: { name: '', arguments: TEXT } }] })],
    [CHAT, chat, choice({ refusal: TEXT })],
    ['/v1/messages', messages, blocks({ type: 'text', text: TEXT })],
    ['/v1/messages', messages, blocks({ type: 'thinking', thinking: TEXT })],
    ['/v1/messages', messages, blocks({ type: 'tool_use', input: { a: TEXT.slice(8) } })],
    [RESPONSES, responses, output({ type: 'message', content: [{ type: 'output_text', text: TEXT }] })],
    [RESPONSES, responses, output({ type: 'message', content: [{ type: 'refusal', refusal: TEXT }] })],
    [RESPONSES, responses, output({ type: 'function_call', arguments: TEXT })],
    [RESPONSES, responses, output({ type: 'custom_tool_call', input: TEXT })],
    [RESPONSES, responses, output({ type: 'reasoning', summary: [{ text: TEXT }] })],
    [GEMINI, gemini, parts({ text: TEXT })],
    [GEMINI, gemini, parts({ functionCall: { args: { a: TEXT.slice(8) } } })],
  ])('%s: %#', async (path, request, answer) => {
    await using fixture = await openGatewayFixture((response) => sendJson(response, answer))
    const sandbox = await fixture.sandbox()
    await (await sandbox.post(path, request)).text()
    expect(await sandbox.totals()).toMatchObject({ costSource: 'estimated', usage: { output: 100 } })
  })

  test.each<[string, object, object]>([
    [CHAT, chat, { ...choice({ content: TEXT }), usage: { prompt_tokens: 5, completion_tokens: -1 } }],
    [
      '/v1/messages',
      messages,
      message({ content: [{ text: TEXT }], usage: { input_tokens: 1e300, output_tokens: 0 } }),
    ],
    [
      RESPONSES,
      responses,
      { ...output({ content: [{ text: TEXT }] }), usage: { input_tokens: 5, output_tokens: '0' } },
    ],
    [GEMINI, gemini, { ...parts({ text: TEXT }), usageMetadata: { promptTokenCount: 0.5 } }],
  ])('%s: also when the usage is absurd', async (path, request, answer) => {
    await using fixture = await openGatewayFixture((response) => sendJson(response, answer))
    const sandbox = await fixture.sandbox()
    await (await sandbox.post(path, request)).text()
    expect(await sandbox.totals()).toMatchObject({ costSource: 'estimated', usage: { output: 100 } })
  })

  test('a stream that repeats its text at the end counts it once', async () => {
    const text = (type: string, more: object) => `data: ${JSON.stringify({ type, ...more })}\n\n`
    await using fixture = await openGatewayFixture((response) =>
      beginEvents(response).end(
        text('response.output_text.delta', { delta: TEXT }) +
          text('response.completed', { response: output({ content: [{ text: TEXT }] }) }),
      ),
    )
    const sandbox = await fixture.sandbox()
    await (await sandbox.post(RESPONSES, { ...responses, stream: true })).text()
    expect(await sandbox.totals()).toMatchObject({ costSource: 'estimated', usage: { output: 100 } })
  })
})

const BUDGET = 5_000_000

describe('usage beyond what the request allowed is not believed', () => {
  test.each<[string, string, object, (tokens: number) => object]>([
    ['output', CHAT, chat, (tokens) => ({ ...choice({}), usage: { prompt_tokens: 5, completion_tokens: tokens } })],
    [
      'reasoning',
      CHAT,
      chat,
      (tokens) => ({
        ...choice({}),
        usage: {
          prompt_tokens: 5,
          completion_tokens: 5,
          total_tokens: 10 + tokens,
          completion_tokens_details: { reasoning_tokens: tokens },
        },
      }),
    ],
    ['output', '/v1/messages', messages, (tokens) => message({ usage: { input_tokens: 5, output_tokens: tokens } })],
    ['input', '/v1/messages', messages, (tokens) => message({ usage: { input_tokens: tokens, output_tokens: 5 } })],
    [
      'written input',
      '/v1/messages',
      messages,
      (tokens) => message({ usage: { input_tokens: 0, cache_creation_input_tokens: tokens, output_tokens: 5 } }),
    ],
    ['output', RESPONSES, responses, (tokens) => ({ ...output(), usage: { input_tokens: 5, output_tokens: tokens } })],
    [
      'thoughts',
      GEMINI,
      gemini,
      (tokens) => ({ ...parts(), usageMetadata: { promptTokenCount: 5, thoughtsTokenCount: tokens } }),
    ],
  ])('%s at %s', async (_, path, request, answerWith) => {
    const lines: string[] = []
    await using fixture = await openGatewayFixture((response) => sendJson(response, answerWith(10_000_000)), {
      log: createLog('warn', (line) => lines.push(line)),
    })
    const sandbox = await fixture.sandbox({ budgetMicros: BUDGET, terms: { ...TERMS, contextTokens: 200_000 } })

    await (await sandbox.post(path, request)).text()

    const [call] = (await fixture.ledger.read(sandbox.id))?.calls ?? []
    expect(call).toMatchObject({ outcome: 'succeeded', costSource: 'estimated' })
    expect(call?.costMicros).toBeLessThanOrEqual(call?.reservedMicros ?? 0)
    expect(call?.usage.output).toBeLessThanOrEqual(1000)
    expect((await sandbox.totals()).costMicros).toBeLessThanOrEqual(BUDGET)
    expect(lines.join('')).toContain('usage')
  })

  test('a provider that lies in every call never takes the cost above the budget', async () => {
    const lie = (response: ServerResponse) =>
      sendJson(response, message({ usage: { input_tokens: 100_000_000, output_tokens: 100_000_000 } }))
    await using fixture = await openGatewayFixture(lie)
    const sandbox = await fixture.sandbox({ budgetMicros: 50_000 })
    const statuses: number[] = []
    while (!statuses.includes(402)) statuses.push((await sandbox.post('/v1/messages', messages)).status)
    const { costMicros } = await sandbox.totals()
    expect(costMicros).toBeLessThanOrEqual(50_000)
    expect(costMicros).toBeGreaterThan(30_000)
  })

  test('the tokens that a provider adds for tools are reserved', async () => {
    const usage = { input_tokens: 700, output_tokens: 1000 }
    await using fixture = await openGatewayFixture((response) => sendJson(response, message({ usage })))
    const sandbox = await fixture.sandbox({ budgetMicros: BUDGET })
    await (await sandbox.post('/v1/messages', { ...messages, tools: [{ name: 'ls', input_schema: {} }] })).text()
    expect(await sandbox.totals()).toMatchObject({ costSource: 'metered', costMicros: 700 * 3 + 1000 * 15 })
  })

  test('usage exactly at the limits is metered', async () => {
    const usage = { input_tokens: 100, output_tokens: 1000 }
    await using fixture = await openGatewayFixture((response) => sendJson(response, message({ usage })))
    const sandbox = await fixture.sandbox({ terms: { ...TERMS, contextTokens: 100 } })
    await (await sandbox.post('/v1/messages', messages)).text()
    expect(await sandbox.totals()).toMatchObject({ costSource: 'metered', costMicros: 100 * 3 + 1000 * 15 })
  })
})
