import { expect, test } from 'vitest'
import { message, messagesRequest, openGatewayFixture, sendJson } from '../../test/support/gateway/gateway.ts'
import { decideVerdict } from './verdict.ts'

// Everything that multiplies the cost of a call must be known before it is sent.

const FAILED = { state: 'failed', class: 'agent_exit', error: null } as const
const CHAT = '/v1/chat/completions'
const RESPONSES = '/v1/responses'
const GEMINI = '/v1beta/models/large-1:generateContent'
const chat = (changes: object) => ({ model: 'large-1', messages: [], reasoning_effort: 'high', ...changes })
const responses = (changes: object) => ({ model: 'large-1', input: 'x', reasoning: { effort: 'high' }, ...changes })
const gemini = (generationConfig: unknown) => ({ contents: [{ parts: [{ text: 'x' }] }], generationConfig })

const COUNTS = ['100', 1.5, -2, 1e12, true, [100], { value: 100 }, '']

test.each<[string, (count: unknown) => object, string]>([
  ['n', (n) => chat({ n }), CHAT],
  ['best_of', (count) => chat({ best_of: count }), CHAT],
  ['max_tokens', (count) => chat({ max_tokens: count }), CHAT],
  ['max_completion_tokens', (count) => chat({ max_completion_tokens: count }), CHAT],
  ['reasoning.max_tokens', (count) => chat({ reasoning: { max_tokens: count } }), CHAT],
  ['thinking_budget', (count) => chat({ thinking_budget: count }), CHAT],
  ['max_output_tokens', (count) => responses({ max_output_tokens: count }), RESPONSES],
  ['n', (n) => responses({ n }), RESPONSES],
  ['max_tokens', (count) => messagesRequest({ max_tokens: count }), '/v1/messages'],
  [
    'thinking.budget_tokens',
    (count) => messagesRequest({ thinking: { type: 'enabled', budget_tokens: count } }),
    '/v1/messages',
  ],
  ['n', (n) => messagesRequest({ n }), '/v1/messages'],
  ['candidateCount', (count) => gemini({ candidateCount: count }), GEMINI],
  ['candidate_count', (count) => gemini({ candidate_count: count }), GEMINI],
  ['maxOutputTokens', (count) => gemini({ maxOutputTokens: count }), GEMINI],
  ['thinkingBudget', (count) => gemini({ thinkingConfig: { thinkingBudget: count } }), GEMINI],
])('%s is refused unless it is an integer in range', async (name, bodyWith, path) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox({ budgetMicros: 1_000_000 })

  for (const count of COUNTS) {
    const answer = await sandbox.post(path, bodyWith(count))
    expect([count, answer.status, await answer.text()]).toEqual([count, 400, expect.stringContaining(name)])
  }

  expect(fixture.received).toEqual([])
  const totals = await sandbox.totals()
  expect(totals.refusals).toEqual({ malformed: COUNTS.length })
  expect(decideVerdict(FAILED, totals)).toMatchObject({ kind: 'judged', state: 'failed' })
})

test.each<[string, string, object]>([
  ['more alternatives than any provider allows', CHAT, chat({ n: 129 })],
  ['no alternative', CHAT, chat({ n: 0 })],
  ['several of which one is chosen', CHAT, chat({ best_of: 2 })],
  ['more alternatives than any provider allows', GEMINI, gemini({ candidateCount: 129 })],
  ['a count in two spellings', GEMINI, gemini({ candidateCount: 1, candidate_count: 8 })],
  ['a limit in two spellings', GEMINI, gemini({ maxOutputTokens: 1, max_output_tokens: 8 })],
  [
    'a budget for reasoning in two spellings of its settings',
    GEMINI,
    gemini({ thinkingConfig: { thinkingBudget: 0 }, thinking_config: { thinkingBudget: 32_000 } }),
  ],
  [
    'a reasoning level in two spellings',
    GEMINI,
    gemini({ thinkingConfig: { thinkingLevel: 'low', thinking_level: 'high' } }),
  ],
  ['settings that are no object', GEMINI, gemini([{ candidateCount: 8 }])],
])('%s at %s is refused as malformed', async (_, path, body) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post(path, body)).status).toBe(400)
  expect((await sandbox.totals()).refusals).toEqual({ malformed: 1 })
})

test.each<[string, string, object]>([
  ['merged parameters', CHAT, chat({ extra_body: { n: 100 } })],
  ['merged parameters', RESPONSES, responses({ extra_body: { n: 100 } })],
  ['merged parameters', '/v1/messages', messagesRequest({ extra_body: { n: 100 } })],
  ['predicted output', CHAT, chat({ prediction: { type: 'content', content: 'x' } })],
  ['speed', CHAT, chat({ speed: 'fast' })],
  ['speed', RESPONSES, responses({ speed: 'fast' })],
  ['another provider', '/v1/messages', messagesRequest({ provider: { sort: 'throughput' } })],
  ['another provider', RESPONSES, responses({ provider: { sort: 'throughput' } })],
  ['beam search', CHAT, chat({ use_beam_search: true })],
  ['a limit under another name', CHAT, chat({ max_tokens: 1, max_new_tokens: 100_000 })],
  ['a limit under another name', CHAT, chat({ max_tokens: 1, max_output_tokens: 100_000 })],
])('%s at %s is refused as a surcharge', async (_, path, body) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post(path, body)).status).toBe(400)
  expect((await sandbox.totals()).refusals).toEqual({ surcharge: 1 })
})

test.each<[string, string, object]>([
  ['work in the background', CHAT, chat({ background: true })],
  ['other models', '/v1/messages', messagesRequest({ models: ['huge-1'] })],
  ['other models', RESPONSES, responses({ models: ['huge-1'] })],
])('%s at %s is refused as a server-side tool', async (_, path, body) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post(path, body)).status).toBe(400)
  expect((await sandbox.totals()).refusals).toEqual({ hosted: 1 })
})

test.each<[string, object]>([
  [CHAT, chat({ n: 1, best_of: null, max_tokens: 100, max_completion_tokens: null })],
  [CHAT, chat({ n: 2, thinking_budget: -1, reasoning: { max_tokens: 1024 } })],
  [RESPONSES, responses({ max_output_tokens: null })],
  ['/v1/messages', messagesRequest({ thinking: { type: 'enabled', budget_tokens: 1024 }, max_tokens: 100.0 })],
  [GEMINI, gemini({ candidateCount: 2, maxOutputTokens: 100, thinkingConfig: { thinkingBudget: -1 } })],
  [GEMINI, gemini(null)],
])('numbers in range at %s are accepted: %j', async (path, body) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post(path, body)).status).toBe(200)
})

test('headers that ask a provider for another price are not sent on', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  const names = ['x-vertex-ai-llm-shared-request-type', 'x-vertex-ai-llm-request-type', 'x-amzn-bedrock-service-tier']
  const headers = Object.fromEntries(names.map((name) => [name, 'priority']))
  await sandbox.post('/v1/messages', messagesRequest(), { headers })
  for (const name of names) expect(fixture.received[0]?.headers).not.toHaveProperty(name)
})
