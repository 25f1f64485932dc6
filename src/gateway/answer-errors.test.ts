import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import {
  beginEvents,
  EVENTS,
  message,
  messagesRequest,
  openGatewayFixture,
  sendJson,
  type UpstreamRequest,
} from '../../test/support/gateway/gateway.ts'
import { closeGrant } from './grants.ts'
import { decideVerdict } from './verdict.ts'

// Errors that arrive inside a successful response. The request may have caused them, so they excuse a trial only if
// the provider fails a request of the gateway's own too.

const FAILED = { state: 'failed', class: 'agent_exit', error: null } as const
const STREAM = messagesRequest({ stream: true, messages: [{ role: 'user', content: 'poison' }] })
const CHAT = {
  model: 'large-1',
  stream: true,
  reasoning_effort: 'high',
  messages: [{ role: 'user', content: 'poison' }],
}
const RESPONSES = { model: 'large-1', stream: true, reasoning: { effort: 'high' }, input: 'poison' }
const GEMINI = { contents: [{ role: 'user', parts: [{ text: 'poison' }] }] }
const PATHS = {
  '/v1/messages': STREAM,
  '/v1/chat/completions': CHAT,
  '/v1/responses': RESPONSES,
  '/v1beta/models/large-1:streamGenerateContent': GEMINI,
}
type Path = keyof typeof PATHS
const isPoison = ({ body }: UpstreamRequest): boolean => body.includes('poison')

/** A complete answer in every protocol. */
const ANSWER = {
  ...message(),
  object: 'response',
  status: 'completed',
  choices: [{ finish_reason: 'stop', message: { content: 'Hi' } }],
  candidates: [{ finishReason: 'STOP', content: { parts: [{ text: 'Hi' }] } }],
}

const sendEvents = (...events: (object | string)[]) => {
  const data = events.map((event) => (typeof event === 'string' ? event : JSON.stringify(event)))
  return (response: ServerResponse) => beginEvents(response).end(data.map((each) => `data: ${each}\n\n`).join(''))
}

const START = { type: 'message_start', message: { model: 'large-1', usage: { input_tokens: 12, output_tokens: 1 } } }
const CHUNK = { choices: [{ delta: { content: 'so' } }] }
const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }

/** Answers that the request may have caused, by how they arrive. */
const FAULTS: [string, Path, (response: ServerResponse) => unknown][] = [
  ['an overload event', '/v1/messages', sendEvents(START, overloaded)],
  [
    'a content filter event',
    '/v1/messages',
    sendEvents(START, {
      type: 'error',
      error: { type: 'api_error', message: 'Output blocked by content filtering policy' },
    }),
  ],
  ['a server error event', '/v1/chat/completions', sendEvents(CHUNK, { error: { type: 'server_error' } })],
  ['an error event before [DONE]', '/v1/chat/completions', sendEvents(CHUNK, { error: { code: 502 } }, '[DONE]')],
  [
    'an error as finish reason',
    '/v1/chat/completions',
    sendEvents({ choices: [{ finish_reason: 'error' }] }, '[DONE]'),
  ],
  ['a server error event', '/v1/responses', sendEvents({ type: 'error', code: 'server_error', message: 'sorry' })],
  [
    'a failed response',
    '/v1/responses',
    sendEvents({ type: 'response.failed', response: { status: 'failed', error: { code: 'server_error' } } }),
  ],
  [
    'an error chunk',
    '/v1beta/models/large-1:streamGenerateContent',
    sendEvents({ error: { code: 500, status: 'INTERNAL' } }),
  ],
  ...(Object.keys(PATHS) as Path[]).flatMap((path): typeof FAULTS => [
    ['status 200 with nothing but an error', path, (response) => sendJson(response, { error: { message: 'no' } })],
    ['a stream without its end', path, sendEvents({})],
    ['status 206 with half of the answer', path, (response) => response.writeHead(206).end('{"type":"mess')],
    ['status 204', path, (response) => response.writeHead(204).end()],
    ['status 304', path, (response) => response.writeHead(304).end()],
    [
      'a connection that breaks in the middle',
      path,
      (response) => {
        beginEvents(response).write('data: {}\n\n')
        setImmediate(() => response.destroy())
      },
    ],
  ]),
]

const openFaulty = (fault: (response: ServerResponse) => unknown, isOutage = () => false) =>
  openGatewayFixture((response, arrived) => {
    if (isPoison(arrived)) return fault(response)
    return isOutage() ? sendJson(response, {}, 503) : sendJson(response, ANSWER)
  })

describe.each(FAULTS)('%s at %s', (_, path, fault) => {
  test('scores the trial if the provider answers the gateway', async () => {
    await using fixture = await openFaulty(fault)
    const sandbox = await fixture.sandbox()
    await sandbox.post('/v1/messages', messagesRequest())

    await (await sandbox.post(path, PATHS[path])).text().catch(() => '')

    const totals = await sandbox.totals()
    expect(totals).toMatchObject({ calls: { succeeded: 1 }, lastFailure: { kind: 'request', isRecovered: false } })
    expect(decideVerdict(FAILED, totals)).toMatchObject({ kind: 'judged', state: 'failed', class: 'agent_exit' })
  })

  test('excuses the trial if the provider fails the gateway too', async () => {
    let isOutage = false
    await using fixture = await openFaulty(fault, () => isOutage)
    const sandbox = await fixture.sandbox()
    await sandbox.post('/v1/messages', messagesRequest())
    isOutage = true

    await (await sandbox.post(path, PATHS[path])).text().catch(() => '')

    const totals = await sandbox.totals()
    expect(totals.lastFailure).toMatchObject({ kind: 'upstream' })
    expect(decideVerdict(FAILED, totals)).toMatchObject({ state: 'errored', class: 'provider_error' })
  })
})

test.each<[Path, object]>([
  ['/v1/messages', { type: 'error', error: { type: 'invalid_request_error' } }],
  ['/v1/chat/completions', { error: { type: 'invalid_request_error' } }],
  ['/v1/responses', { type: 'error', code: 'context_length_exceeded' }],
  ['/v1beta/models/large-1:streamGenerateContent', { error: { code: 400, status: 'INVALID_ARGUMENT' } }],
])('an event at %s that says the request is invalid is taken at its word: %j', async (path, event) => {
  await using fixture = await openGatewayFixture((response) => sendEvents(event)(response))
  const sandbox = await fixture.sandbox()

  await (await sandbox.post(path, PATHS[path])).text()

  expect(fixture.received).toHaveLength(1)
  expect((await sandbox.totals()).lastFailure).toMatchObject({ kind: 'request' })
})

test('a rate limit that arrives as an event is attributed like a 429', async () => {
  const event = { type: 'error', error: { type: 'rate_limit_error' } }
  await using fixture = await openGatewayFixture((response, arrived) =>
    isPoison(arrived) ? sendEvents(START, event)(response) : sendJson(response, {}, 429),
  )
  const sandbox = await fixture.sandbox()
  await (await sandbox.post('/v1/messages', STREAM)).text()
  expect((await sandbox.totals()).lastFailure).toMatchObject({ kind: 'rate' })
})

test('the cost of finding out is part of the call', async () => {
  await using fixture = await openFaulty(sendEvents(START, overloaded))
  const sandbox = await fixture.sandbox()
  await (await sandbox.post('/v1/messages', STREAM)).text()
  // The stream is estimated at 12 × 3 + 1 × 15 micro-dollars, the request of the gateway is metered at 111.
  expect(await sandbox.totals()).toMatchObject({ costMicros: 51 + 111, costSource: 'estimated' })
})

test('a program that disconnects before its answer begins has caused the failure itself', async () => {
  await using fixture = await openGatewayFixture(
    (response, arrived) => (isPoison(arrived) ? undefined : sendJson(response, message())),
    {
      options: { drainMs: 20 },
    },
  )
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  const leave = new AbortController()
  const call = sandbox.post('/v1/messages', STREAM, { signal: leave.signal }).catch(() => undefined)
  await expect.poll(() => fixture.received.length).toBe(2)
  leave.abort()
  await call
  await expect.poll(async () => (await sandbox.totals()).calls.failed).toBe(1)
  expect(decideVerdict(FAILED, await closeGrant(fixture.ledger, sandbox.id))).toMatchObject({ state: 'failed' })
})

test('a failure does not count after a later call succeeded', async () => {
  await using fixture = await openFaulty(sendEvents(START, overloaded))
  const sandbox = await fixture.sandbox()
  await (await sandbox.post('/v1/messages', STREAM)).text()
  await (await sandbox.post('/v1/messages', messagesRequest())).text()
  const totals = await sandbox.totals()
  expect(totals.lastFailure).toMatchObject({ kind: 'request', isRecovered: true })
  expect(decideVerdict({ ...FAILED, state: 'passed' }, totals)).toMatchObject({ state: 'passed' })
})

test('headers that make an answer conditional, partial or deferred are not sent on', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  const names = ['if-none-match', 'if-modified-since', 'if-match', 'if-unmodified-since', 'if-range', 'range']
  const headers = Object.fromEntries([...names, 'prefer', 'cache-control', 'pragma'].map((name) => [name, 'x']))

  await sandbox.post('/v1/messages', messagesRequest(), {
    headers: { ...headers, 'anthropic-beta': 'interleaved-thinking-2025-05-14' },
  })

  const [{ headers: sent = {} } = {}] = fixture.received
  expect(sent).toMatchObject({ 'anthropic-beta': 'interleaved-thinking-2025-05-14' })
  for (const name of Object.keys(headers)) expect(sent).not.toHaveProperty(name)
})

test('a complete stream is a success', async () => {
  await using fixture = await openGatewayFixture((response) => beginEvents(response).end(EVENTS.join('')))
  const sandbox = await fixture.sandbox()
  await (await sandbox.post('/v1/messages', STREAM)).text()
  expect(fixture.received).toHaveLength(1)
  expect(await sandbox.totals()).toMatchObject({ calls: { succeeded: 1 }, lastFailure: null, costMicros: 111 })
})
