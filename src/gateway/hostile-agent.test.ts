import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import {
  beginEvents,
  EVENTS,
  message,
  messagesRequest,
  openGatewayFixture,
  sendJson,
  TERMS,
  type UpstreamRequest,
} from '../../test/support/gateway/gateway.ts'
import { closeGrant } from './grants.ts'
import { decideVerdict } from './verdict.ts'

// A program that would rather not be judged, or not pay. What it does here it can do in any sandbox.

const failed = { state: 'failed', class: 'agent_exit', error: null } as const
const POISON = messagesRequest({ messages: [{ role: 'user', content: 'poison' }] })
const isPoison = ({ body }: UpstreamRequest): boolean => body.includes('poison')

const chat = (changes: object) => ({ model: 'large-1', messages: [], reasoning_effort: 'high', ...changes })
const responses = (changes: object) => ({ model: 'large-1', input: 'x', reasoning: { effort: 'high' }, ...changes })
const GEMINI = '/v1beta/models/large-1:generateContent'
const contents = [{ role: 'user', parts: [{ text: 'x' }] }]
const sound = { mimeType: 'audio/wav', data: 'AAAA' }

test.each<[string, string, object]>([
  ['a tier', '/v1/messages', messagesRequest({ service_tier: 'priority' })],
  ['haste', '/v1/messages', messagesRequest({ speed: 'fast' })],
  ['a region', '/v1/messages', messagesRequest({ inference_geo: 'us' })],
  ['a tier', '/v1/chat/completions', chat({ service_tier: 'flex' })],
  ['a tier', '/v1/chat/completions', chat({ service_tier: { is: 'priority' } })],
  ['sound', '/v1/chat/completions', chat({ modalities: ['text', 'audio'], audio: { voice: 'x' } })],
  ['another house', '/v1/chat/completions', chat({ provider: { sort: 'throughput' } })],
  ['a tier', '/v1/responses', responses({ service_tier: 'priority' })],
  ['a tier', '/v1/responses', responses({ service_tier: 'Fast' })],
  ['a tier', GEMINI, { contents, serviceTier: 'PRIORITY' }],
  ['a tier', GEMINI, { contents, service_tier: 'flex' }],
  ['pictures', GEMINI, { contents, generation_config: { response_modalities: ['IMAGE'] } }],
  ['sound', GEMINI, { contents: [{ parts: [{ inline_data: { mime_type: 'audio/wav', data: 'AAAA' } }] }] }],
  ['sound', GEMINI, { contents: [{ parts: [{ inlineData: sound }] }] }],
])('refuses %s at %s, which is billed separately', async (_, path, body) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  const answer = await sandbox.post(path, body)
  expect([answer.status, fixture.received.length]).toEqual([400, 0])
  expect((await sandbox.totals()).refusals).toEqual({ surcharge: 1 })
})

test.each<[string, object]>([
  ['/v1/messages', messagesRequest({ service_tier: 'auto', speed: null })],
  ['/v1/messages', messagesRequest({ service_tier: 'standard_only', inference_geo: 'global' })],
  ['/v1/chat/completions', chat({ service_tier: 'default', modalities: ['text'], audio: null })],
  ['/v1/responses', responses({ service_tier: 'auto' })],
  [GEMINI, { contents, serviceTier: 'STANDARD', generationConfig: { responseModalities: ['TEXT'] } }],
])('accepts ordinary values at %s: %j', async (path, body) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post(path, body)).status).toBe(200)
})

test.each<[string, object]>([
  ['a stored conversation', responses({ previous_response_id: 'resp_1' })],
  ['a conversation', responses({ conversation: { id: 'conv_1' } })],
])('refuses to continue %s: it is billed as if it had been sent, and may belong to another trial', async (_, body) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post('/v1/responses', body)).status).toBe(400)
  expect(fixture.received).toEqual([])
})

test.each<[number, object]>([
  [401, {}],
  [402, {}],
  [403, { error: { message: 'Your input was flagged.' } }],
  [400, { error: { message: "Invalid value: 'insufficient_quota'." } }],
  [429, { error: { message: "Invalid value: 'insufficient_quota'." } }],
  [500, {}],
  [503, {}],
])('a body that provokes a %i neither excuses the trial nor stops the comparison', async (status, body) => {
  await using fixture = await openGatewayFixture((response, arrived) =>
    isPoison(arrived) ? sendJson(response, body, status) : sendJson(response, message()),
  )
  const sandbox = await fixture.sandbox({ budgetMicros: 1_000_000 })
  await sandbox.post('/v1/messages', messagesRequest())

  await (await sandbox.post('/v1/messages', POISON)).text()

  const totals = await sandbox.totals()
  expect(totals.lastFailure).toMatchObject({ kind: 'request', status })
  expect(decideVerdict(failed, totals)).toMatchObject({ kind: 'judged', state: 'failed' })
  // What it took to find out is on the bill.
  expect(totals).toMatchObject({ costMicros: 222, costSource: 'metered' })
})

test('an outage or a rejected key counts only if the gateway’s own request fails too', async () => {
  let status = 200
  await using fixture = await openGatewayFixture((response) => sendJson(response, message(), status))
  for (const [now, kind] of [
    [503, 'upstream'],
    [401, 'credential'],
  ] as const) {
    status = 200
    const sandbox = await fixture.sandbox()
    await sandbox.post('/v1/messages', messagesRequest())
    status = now
    await sandbox.post('/v1/messages', POISON)
    // Telemetry, after all is lost.
    await sandbox.post('/api/event_logging', {})
    expect((await sandbox.totals()).lastFailure).toMatchObject({ kind, isRecovered: false })
  }
})

test('a request that exceeds the account’s limit is the program’s fault', async () => {
  await using fixture = await openGatewayFixture((response) =>
    sendJson(response, { error: { message: 'Request too large' } }, 429),
  )
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  expect((await sandbox.totals()).lastFailure).toMatchObject({ kind: 'request' })
})

const tooOften = (response: ServerResponse) => sendJson(response, { error: { message: 'slow down' } }, 429)
const isOwn = ({ body }: UpstreamRequest): boolean => body.includes('hello') || body.includes('poison')

const STORM = 20

test('a program that floods the provider is scored', async () => {
  const held: ServerResponse[] = []
  // Until there are many at once, however slowly they come.
  const refuse = (response: ServerResponse) => {
    if (held.push(response) === STORM) for (const each of held) tooOften(each)
    if (held.length > STORM) tooOften(response)
  }
  // The window in which calls count as simultaneous is long, so that a slow machine changes nothing.
  const retry = { triesMax: 2, totalMs: 10_000, firstMs: 1, pauseMaxMs: 5_000, quietMs: 3_000 }
  await using fixture = await openGatewayFixture(
    (response, arrived) => (isPoison(arrived) ? refuse(response) : sendJson(response, message())),
    { options: { retry } },
  )
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  const storm = await Promise.all(Array.from({ length: STORM }, () => sandbox.post('/v1/messages', POISON)))
  expect(storm.map(({ status }) => status)).toEqual(storm.map(() => 429))
  const totals = await sandbox.totals()
  expect(totals.lastFailure).toMatchObject({ kind: 'request', status: 429 })
  expect(decideVerdict(failed, totals)).toMatchObject({ kind: 'judged', state: 'failed', class: 'agent_exit' })
})

test.each<[string, (arrived: UpstreamRequest) => boolean, boolean]>([
  ['whose other call is under way', () => true, true],
  ['where the smallest request passes', isOwn, false],
])('a rate limit of a trial %s excuses it only until the last attempt', async (_, isRefused, isBusy) => {
  await using fixture = await openGatewayFixture((response, arrived, place) => {
    if (place === 0) return sendJson(response, message())
    if (String(arrived.body).includes('endless')) return beginEvents(response).write(EVENTS[0])
    return isRefused(arrived) ? tooOften(response) : sendJson(response, message())
  })
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  const endless = { ...messagesRequest({ messages: [{ role: 'user', content: 'endless' }] }), stream: true }
  if (isBusy) await (await sandbox.post('/v1/messages', endless)).body?.getReader().read()
  expect((await sandbox.post('/v1/messages', POISON)).status).toBe(429)
  const totals = await sandbox.totals()
  expect(totals.lastFailure).toMatchObject({ kind: 'crowded' })
  expect(decideVerdict(failed, totals)).toMatchObject({ state: 'errored', class: 'provider_error' })
  expect(decideVerdict(failed, totals, { isLastAttempt: true })).toMatchObject({ kind: 'judged', state: 'failed' })
})

test('a rate limit that others caused excuses the trial on every attempt', async () => {
  await using fixture = await openGatewayFixture((response, _, place) =>
    place === 0 ? sendJson(response, message()) : tooOften(response),
  )
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  await sandbox.post('/v1/messages', POISON)
  const totals = await sandbox.totals()
  expect(totals.lastFailure).toMatchObject({ kind: 'rate' })
  expect(decideVerdict(failed, totals, { isLastAttempt: true })).toMatchObject({
    state: 'errored',
    class: 'provider_error',
  })
})

test('a program that exhausts its own limits is scored', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()), {
    options: { callsAtOnce: 2 },
  })
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  const { port } = new URL(sandbox.url)
  const half = `POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: ${sandbox.token}\r\nContent-Length: 99\r\n\r\n{`
  const sockets = [0, 1].map(() =>
    connect(Number(port), '127.0.0.1', function (this: ReturnType<typeof connect>) {
      this.write(half)
    }),
  )
  await expect.poll(async () => (await sandbox.post('/v1/messages', messagesRequest())).status).toBe(429)
  for (const socket of sockets) socket.destroy()
  expect(decideVerdict(failed, await sandbox.totals())).toMatchObject({ state: 'failed', class: 'agent_exit' })
})

test('a program that sends thousands of calls ahead on a connection is disconnected', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  const socket = connect(Number(new URL(sandbox.url).port), '127.0.0.1')
  socket.on('error', () => {})
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.write(`GET /v1/models HTTP/1.1\r\nHost: x\r\nx-api-key: ${sandbox.token}\r\n\r\n`.repeat(5_000))
  socket.resume()
  await closed
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(200)
})

test('a program that leaves an endless answer is scored', async () => {
  await using fixture = await openGatewayFixture(
    (response, arrived) => (isPoison(arrived) ? beginEvents(response).write(EVENTS[0]) : sendJson(response, message())),
    { options: { drainMs: 50 } },
  )
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  const leave = new AbortController()
  const answer = await sandbox.post('/v1/messages', { ...POISON, stream: true }, { signal: leave.signal })
  await answer.body?.getReader().read()
  leave.abort()
  await expect.poll(async () => (await sandbox.totals()).calls.cut).toBe(1)
  expect(decideVerdict(failed, await closeGrant(fixture.ledger, sandbox.id))).toMatchObject({ state: 'failed' })
})

test('a call that is open when its trial ends is not lost while its gateway lives', async () => {
  await using fixture = await openGatewayFixture((response, arrived) =>
    isPoison(arrived) ? beginEvents(response).write(EVENTS[0]) : sendJson(response, message()),
  )
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  const answer = await sandbox.post('/v1/messages', { ...POISON, stream: true })
  await answer.body?.getReader().read()
  const totals = await closeGrant(fixture.ledger, sandbox.id, { drainMs: 50, settleMs: 50 })
  expect(totals.calls).toMatchObject({ succeeded: 1, open: 1, lost: 0 })
  expect(decideVerdict(failed, totals)).toMatchObject({ kind: 'judged', state: 'failed' })
})

test.each(['invalid_prompt', 'context_length_exceeded'])(
  'a stream that fails with %s is the program’s fault',
  async (code) => {
    const response = { status: 'failed', model: 'large-1', error: { code } }
    await using fixture = await openGatewayFixture((answer) =>
      beginEvents(answer).end(`data: ${JSON.stringify({ type: 'response.failed', response })}\n\n`),
    )
    const sandbox = await fixture.sandbox()
    await (await sandbox.post('/v1/responses', responses({ stream: true }))).text()
    expect((await sandbox.totals()).lastFailure).toMatchObject({ kind: 'request' })
  },
)

test('drops headers that ask for formats that cannot be metered, and sets the content type', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  const headers = {
    accept: 'application/x-protobuf',
    'content-type': 'application/json; charset=utf-16',
    'x-portkey-provider': 'another',
    'helicone-target-url': 'https://example.com',
  }
  await sandbox.post(`${GEMINI}?alt=proto&$alt=proto`, { contents }, { headers })
  const [{ path, headers: sent } = {}] = fixture.received
  expect(path).toBe(GEMINI)
  expect(sent).toMatchObject({ 'content-type': 'application/json' })
  expect(Object.keys(sent ?? {})).not.toEqual(expect.arrayContaining(['accept']))
  expect(JSON.stringify(sent)).not.toMatch(/portkey|helicone|protobuf/)
})

test.each<[object, number]>([
  [{ n: 20 }, 20_000],
  [{ n: 20, max_tokens: 0 }, 20_000],
  [{ n: 2, max_tokens: 10, max_completion_tokens: 1 }, 20],
  [{ max_tokens: null }, 1000],
])('reserves every alternative that %j allows', async (changes, output) => {
  await using fixture = await openGatewayFixture((response) => response.destroy())
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/chat/completions', chat(changes))
  const [call] = (await fixture.ledger.read(sandbox.id))?.calls ?? []
  expect(call?.reservedMicros).toBeGreaterThanOrEqual(output * 15)
  expect(call?.reservedMicros).toBeLessThan(output * 15 + 1000)
})

const block = (type: string) => ({ type, source: { type: 'base64', data: 'AAAA' } })
const result = { type: 'tool_result', content: [block('image'), block('document')] }
const inline = (mimeType: string) => ({ inlineData: { mimeType, data: 'AAAA' } })

test.each<[string, object, number]>([
  ['/v1/messages', messagesRequest({ messages: [{ role: 'user', content: [block('image'), result] }] }), 310],
  [
    '/v1/responses',
    responses({
      input: [
        {
          content: [
            { type: 'input_image', image_url: 'data:,x' },
            { type: 'input_file', file_data: 'x' },
          ],
        },
        { output: [{ type: 'input_image', image_url: 'data:,x' }] },
      ],
    }),
    390,
  ],
  [
    '/v1/chat/completions',
    chat({
      messages: [
        { content: [{ type: 'image_url', image_url: { url: 'data:,x' } }] },
        {
          content: [
            { type: 'image_url', image_url: { url: 'data:,x' } },
            { type: 'file', file: { file_data: 'x' } },
          ],
        },
      ],
    }),
    390,
  ],
  [GEMINI, { contents: [{ parts: ['image/png', 'IMAGE/webp', 'application/pdf'].map(inline) }] }, 310],
])('reserves small pictures and documents at %s at their maximum tokens', async (path, body, thousands) => {
  await using fixture = await openGatewayFixture((response) => response.destroy())
  const sandbox = await fixture.sandbox({ terms: { ...TERMS, prices: { input: 1, output: 0 } } })
  await sandbox.post(path, body)
  const [call] = (await fixture.ledger.read(sandbox.id))?.calls ?? []
  expect(Math.floor((call?.reservedMicros ?? 0) / 1000)).toBe(thousands)
})

test.each<[string, object]>([
  [
    '/v1/messages',
    messagesRequest({ messages: [{ content: [{ type: 'document', source: { type: 'file', file_id: 'f' } }] }] }),
  ],
  ['/v1/responses', responses({ input: [{ content: [{ type: 'input_file', file_id: 'f' }] }] })],
  ['/v1/chat/completions', chat({ messages: [{ content: [{ type: 'file', file: { file_id: 'f' } }] }] })],
])('refuses files that the provider stores at %s', async (path, body) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post(path, body)).status).toBe(400)
  expect((await sandbox.totals()).refusals).toEqual({ hosted: 1 })
})

test.each<[string, string]>([
  ['in large letters beside the small', '{"model":"large-1","MODEL":"huge-1","messages":[]}'],
  ['in a letter that folds', '{"model":"large-1","tools":[],"tool\u017f":[{"type":"web_search"}]}'],
  ['in two spellings', '{"model":"large-1","serviceTier":"standard","service_tier":"flex"}'],
  ['a million small things', `{"model":"large-1","x":[${'[],'.repeat(1_000_000)}[]]}`],
])('refuses %s as malformed', async (_, body) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post('/v1/chat/completions', body)).status).toBe(400)
  expect(fixture.received).toEqual([])
})

test('truncates levels and model names before they are stored', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  const long = `\u0000\ud800${'x'.repeat(5_000_000)}`
  expect((await sandbox.post('/v1/messages', messagesRequest({ output_config: { effort: long } }))).status).toBe(200)
  expect((await sandbox.post('/v1/messages', messagesRequest({ model: `small-${long}` }))).status).toBe(200)
  const kept = JSON.stringify((await fixture.ledger.read(sandbox.id))?.calls)
  expect(kept.length).toBeLessThan(5000)
  expect(kept).not.toMatch(/\\u0000|\\ud800/)
})

test('turns on usage reporting in every kind of stream request', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/chat/completions', chat({ stream: 'true' }))
  expect(JSON.parse(String(fixture.received[0]?.body))).toMatchObject({ stream_options: { include_usage: true } })
})

test('refuses calls on a connection that outlives its trial', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox({ terms: TERMS })
  await (await sandbox.post('/v1/messages', messagesRequest())).text()
  await closeGrant(fixture.ledger, sandbox.id)
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(402)
  expect(fixture.received).toHaveLength(1)
})
