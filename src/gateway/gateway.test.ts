import { expect, test } from 'vitest'
import {
  beginEvents,
  EVENTS,
  KEY,
  message,
  messagesRequest,
  openGatewayFixture,
  sendJson,
} from '../../test/support/gateway/gateway.ts'

test('forwards a call with the key instead of the token, returns the answer unchanged, and records one row', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox({ budgetMicros: 1_000_000 })

  const body = '{"model":"large-1",   "max_tokens":1e2, "output_config":{"effort":"high"},"messages":[]}'
  const answer = await sandbox.post('/v1/messages?beta=true&key=leak', body, {
    headers: {
      'anthropic-beta': 'interleaved-thinking-2025-05-14',
      authorization: `Bearer ${sandbox.token}`,
      'openai-organization': 'org',
    },
  })

  expect(answer.status).toBe(200)
  expect(await answer.json()).toEqual(message())
  const [arrived] = fixture.received
  expect(arrived?.path).toBe('/v1/messages?beta=true')
  expect(arrived?.body.toString()).toBe(body)
  expect(arrived?.headers).toMatchObject({
    'x-api-key': KEY,
    'anthropic-beta': 'interleaved-thinking-2025-05-14',
    'accept-encoding': 'identity',
  })
  expect(arrived?.headers).not.toHaveProperty('authorization')
  expect(arrived?.headers).not.toHaveProperty('openai-organization')
  expect(JSON.stringify(arrived)).not.toContain(sandbox.token)
  expect(await sandbox.totals()).toMatchObject({
    usage: { input: 12, output: 5 },
    costMicros: 111,
    costSource: 'metered',
    calls: { succeeded: 1, open: 0 },
    modelsServed: ['large-1-2026'],
    levelMismatches: 0,
    lastFailure: null,
  })
})

test('relays a stream event by event, with unchanged bytes', async () => {
  const next = Promise.withResolvers<void>()
  await using fixture = await openGatewayFixture(async (response) => {
    beginEvents(response).write(EVENTS[0])
    await next.promise
    response.end(EVENTS.slice(1).join(''))
  })
  const sandbox = await fixture.sandbox()

  const answer = await sandbox.post('/v1/messages', messagesRequest({ stream: true }))
  const reader = answer.body?.getReader()
  const first = await reader?.read()
  next.resolve() // the provider goes on only when the first event has arrived
  let text = Buffer.from(first?.value ?? '').toString()
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) text += Buffer.from(part.value)

  expect(answer.headers.get('content-type')).toBe('text/event-stream')
  expect(text).toBe(EVENTS.join(''))
  expect(await sandbox.totals()).toMatchObject({
    usage: { input: 12, output: 5 },
    costMicros: 111,
    costSource: 'metered',
  })
})

const sse = (...events: unknown[]): string => events.map((event) => `data: ${JSON.stringify(event)}\r\n\r\n`).join('')

type Spoken = { path: string; request: object; answer: string; sentPath: string; sent?: object; usage: object }

const chatUsage = { prompt_tokens: 30, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 10 } }
const responsesUsage = {
  input_tokens: 30,
  output_tokens: 7,
  input_tokens_details: { cached_tokens: 10 },
  output_tokens_details: { reasoning_tokens: 2 },
}
const geminiUsage = {
  promptTokenCount: 30,
  cachedContentTokenCount: 10,
  candidatesTokenCount: 5,
  thoughtsTokenCount: 2,
}

const SPOKEN: Record<string, Spoken> = {
  'openai-chat': {
    path: '/v1/chat/completions',
    request: { model: 'large-1', stream: true, reasoning_effort: 'high', messages: [] },
    answer: `${sse({ model: 'm', choices: [{ finish_reason: 'stop' }] }, { model: 'm', choices: [], usage: chatUsage })}data: [DONE]\n\n`,
    sentPath: '/v1/chat/completions',
    sent: { stream_options: { include_usage: true } },
    usage: { input: 20, cacheRead: 10, output: 7 },
  },
  'openai-responses': {
    path: '/v1/responses',
    request: { model: 'large-1', stream: true, reasoning: { effort: 'high' }, input: 'hello' },
    answer: sse({ type: 'response.completed', response: { model: 'm', status: 'completed', usage: responsesUsage } }),
    sentPath: '/v1/responses',
    usage: { input: 20, cacheRead: 10, output: 7, reasoning: 2 },
  },
  gemini: {
    path: '/v1beta/models/large-1:streamGenerateContent?alt=sse&fields=candidates',
    request: { contents: [], generationConfig: { thinkingConfig: { thinkingLevel: 'HIGH' } } },
    answer: sse({ modelVersion: 'm', candidates: [{ finishReason: 'STOP' }], usageMetadata: geminiUsage }),
    sentPath: '/v1beta/models/large-1:streamGenerateContent?alt=sse',
    usage: { input: 20, cacheRead: 10, output: 7, reasoning: 2 },
  },
  'gemini, a helper': {
    path: '/v1beta/models/small-2:streamGenerateContent?alt=sse',
    request: { contents: [] },
    answer: sse({ modelVersion: 'm', candidates: [{ finishReason: 'STOP' }], usageMetadata: geminiUsage }),
    sentPath: '/v1beta/models/large-1:streamGenerateContent?alt=sse',
    usage: { input: 20, output: 7 },
  },
}

test.each(Object.entries(SPOKEN))(
  'a stream of %s is metered',
  async (_, { path, request, answer, sentPath, sent, usage }) => {
    await using fixture = await openGatewayFixture((response) => beginEvents(response).end(answer))
    const sandbox = await fixture.sandbox({ budgetMicros: 1_000_000 })

    const got = await sandbox.post(path, request)

    expect([got.status, await got.text()]).toEqual([200, answer])
    const [arrived] = fixture.received
    expect(arrived?.path).toBe(sentPath)
    expect(JSON.parse(String(arrived?.body))).toEqual({ ...request, ...sent })
    expect(JSON.stringify(arrived?.headers)).toContain(KEY)
    // 20 × 3 + 10 × 0.3 + 7 × 15
    expect(await sandbox.totals()).toMatchObject({
      usage,
      costMicros: 168,
      costSource: 'metered',
      levelMismatches: 0,
      modelsServed: ['m'],
    })
  },
)
