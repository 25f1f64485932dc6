import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import {
  beginEvents,
  EVENTS,
  KEY,
  message,
  messagesRequest,
  openGatewayFixture,
  sendJson,
  TERMS,
  type UpstreamRequest,
} from '../../test/support/gateway/gateway.ts'
import { createLog } from '../platform/log.ts'
import { closeGrant } from './grants.ts'

const STREAM = messagesRequest({ stream: true })

/** And not a request of the gateway's own. */
const isAsked = ({ body }: UpstreamRequest): boolean => body.includes('hello')

test.each([429, 500, 502, 503, 504, 529])(
  'retries a %i, which the program does not see and which is billed once',
  async (status) => {
    await using fixture = await openGatewayFixture((response, _, place) =>
      place < 2 ? sendJson(response, { error: 'later' }, status) : sendJson(response, message()),
    )
    const sandbox = await fixture.sandbox({ budgetMicros: 4000 }) // room for one reservation only

    const answer = await sandbox.post('/v1/messages', messagesRequest())

    expect(answer.status).toBe(200)
    expect(fixture.received).toHaveLength(3)
    expect(new Set(fixture.received.map(({ body }) => String(body))).size).toBe(1)
    const state = await fixture.ledger.read(sandbox.id)
    expect(state?.calls).toMatchObject([{ tries: 3, status: 200, costMicros: 111, costSource: 'metered' }])
    expect(await fixture.metrics()).toContain(`assay_gateway_retries_total{why="${status}"} 2`)
  },
)

test('relays a persistent 429 with the provider’s message, at no cost', async () => {
  await using fixture = await openGatewayFixture((response) =>
    response
      .writeHead(429, { 'content-type': 'application/json', 'retry-after': '0', 'anthropic-organization-id': 'org-1' })
      .end('{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'),
  )
  const sandbox = await fixture.sandbox()

  const answer = await sandbox.post('/v1/messages', messagesRequest())

  expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '0'])
  expect(answer.headers.get('anthropic-organization-id')).toBeNull()
  expect(await answer.json()).toMatchObject({ error: { message: 'slow down' } })
  expect(fixture.received.filter(isAsked)).toHaveLength(4)
  expect(await sandbox.totals()).toMatchObject({
    costMicros: 0,
    costSource: 'metered',
    calls: { failed: 1 },
    lastFailure: { status: 429, kind: 'rate' },
  })
})

test('does not retry if the provider asks for too long a pause', async () => {
  await using fixture = await openGatewayFixture((response) => response.writeHead(503, { 'retry-after': '3600' }).end())
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(503)
  expect(fixture.received.filter(isAsked)).toHaveLength(1)
})

test.each<[number, object]>([
  [401, { error: { message: `Incorrect API key provided: ${KEY}` } }],
  [402, {}],
  [403, {}],
  [400, { error: { message: 'Your credit balance is too low to access the API.' } }],
  [400, { error: { status: 'INVALID_ARGUMENT', details: [{ reason: 'API_KEY_INVALID' }] } }],
])('answers 402 without the provider’s message if it rejects the key with %i %j', async (status, body) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, body, status))
  const sandbox = await fixture.sandbox()

  const answer = await sandbox.post('/v1/messages', messagesRequest())

  expect(answer.status).toBe(402)
  expect(await answer.text()).not.toContain(KEY)
  expect(await sandbox.totals()).toMatchObject({ costMicros: 0, lastFailure: { status, kind: 'credential' } })
})

test('reports a model that the provider does not have', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, { error: 'no such model' }, 404))
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(404)
  expect((await sandbox.totals()).lastFailure).toMatchObject({ status: 404, kind: 'model' })
})

test('does not follow redirects, which would send the key elsewhere', async () => {
  await using elsewhere = await openGatewayFixture((response) => sendJson(response, message()))
  const location = `http://127.0.0.1:${elsewhere.provider.port}/`
  await using fixture = await openGatewayFixture((response) => response.writeHead(307, { location }).end())
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(502)
  expect(fixture.received.filter(isAsked)).toHaveLength(1)
  expect(elsewhere.received).toEqual([])
})

test('refuses calls of a deleted credential before anything is sent', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()), {
    tools: { openSecret: async () => undefined },
  })
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(402)
  expect(await sandbox.totals()).toMatchObject({ lastFailure: { kind: 'credential' }, calls: { failed: 0 } })
})

test('retries an unreachable provider, at no cost', async () => {
  await using fixture = await openGatewayFixture(() => {}, {
    tools: { resolveUpstream: () => ({ url: 'http://127.0.0.1:9', trust: 'operator' }) },
  })
  const sandbox = await fixture.sandbox()

  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(502)

  const state = await fixture.ledger.read(sandbox.id)
  expect(state?.calls).toMatchObject([{ tries: 4, status: null, failure: 'upstream', costMicros: 0 }])
})

test('refuses private addresses of custom models', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()), {
    tools: { resolveUpstream: ({ baseUrl }) => ({ url: baseUrl ?? '', trust: 'client' }) },
  })
  for (const baseUrl of [
    `http://127.0.0.1:${fixture.provider.port}`,
    'https://169.254.169.254',
    'https://localhost:8443',
  ]) {
    const sandbox = await fixture.sandbox({ terms: { ...TERMS, baseUrl } })
    expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(502)
    expect((await fixture.ledger.read(sandbox.id))?.calls).toMatchObject([{ tries: 1, costMicros: 0 }])
  }
  expect(fixture.provider.connections).toEqual([])
})

test('does not retry after a broken connection, because the provider may have done the work', async () => {
  await using fixture = await openGatewayFixture((response) => response.destroy())
  const sandbox = await fixture.sandbox()

  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(502)

  expect(fixture.received.filter(isAsked)).toHaveLength(1)
  const { costMicros, costSource } = await sandbox.totals()
  expect(costSource).toBe('estimated')
  expect(costMicros).toBeGreaterThan(0)
})

test('answers 504 if the provider never answers', async () => {
  await using fixture = await openGatewayFixture(() => {}, { options: { headersMs: 100 } })
  const sandbox = await fixture.sandbox()

  const answer = await sandbox.post('/v1/messages', messagesRequest())

  expect(answer.status).toBe(504)
  expect(await answer.json()).toMatchObject({ type: 'error', error: { type: 'timeout_error' } })
  expect(await sandbox.totals()).toMatchObject({ costSource: 'estimated', lastFailure: { kind: 'upstream' } })
})

test.each<[string, string, Partial<{ idleMs: number }>]>([
  ['is cut in the middle', 'cut', {}],
  ['falls silent', 'silent', { idleMs: 100 }],
])('cuts and estimates a stream that %s', async (_, how, options) => {
  await using fixture = await openGatewayFixture(
    (response) => {
      beginEvents(response).write(EVENTS.slice(0, 3).join(''))
      if (how === 'cut') setImmediate(() => response.destroy())
    },
    { options },
  )
  const sandbox = await fixture.sandbox({ budgetMicros: 1_000_000 })

  const answer = await sandbox.post('/v1/messages', STREAM)

  expect(answer.status).toBe(200)
  await expect(answer.text()).rejects.toThrow()
  const [call] = (await fixture.ledger.read(sandbox.id))?.calls ?? []
  expect(call).toMatchObject({
    outcome: 'cut',
    failure: 'upstream',
    costSource: 'estimated',
    servedModel: 'large-1-2026',
  })
  expect(call?.costMicros).toBeGreaterThan(0)
  expect(call?.costMicros).toBeLessThanOrEqual(call?.reservedMicros ?? 0)
})

test.each<[string, string]>([
  ['ends without its end', EVENTS.slice(0, 4).join('').replaceAll('message_delta', 'message_gamma')],
  ['is none', 'Internal Server Error\n\n'],
  ['is half JSON', 'data: {"type":"message_delta","usage":{"output_tokens":5}\n\ndata: [DONE\n\n'],
  ['has a usage that cannot be', `data: {"type":"message_delta","usage":{"output_tokens":-5}}\n\n`],
  ['is empty', ''],
])('relays unchanged and estimates a stream that %s', async (_, body) => {
  await using fixture = await openGatewayFixture((response) => beginEvents(response).end(body))
  const sandbox = await fixture.sandbox()

  const answer = await sandbox.post('/v1/messages', STREAM)

  expect(await answer.text()).toBe(body)
  expect(await sandbox.totals()).toMatchObject({ costSource: 'estimated', calls: { cut: 1 } })
})

test('meters an answer that the client does not wait for', async () => {
  const left = Promise.withResolvers<void>()
  await using fixture = await openGatewayFixture(async (response) => {
    beginEvents(response).write(EVENTS[0])
    const pings = setInterval(() => response.write(': ping\n\n'), 5)
    await left.promise
    clearInterval(pings)
    response.end(EVENTS.slice(1).join(''))
  })
  const sandbox = await fixture.sandbox()
  const leave = new AbortController()

  const answer = await sandbox.post('/v1/messages', STREAM, { signal: leave.signal })
  await answer.body?.getReader().read()
  leave.abort()
  await expect.poll(() => fixture.gateway.tunnels()).toBe(0)
  left.resolve()
  const totals = await closeGrant(fixture.ledger, sandbox.id)

  expect(totals).toMatchObject({ costMicros: 111, costSource: 'metered', calls: { succeeded: 1 } })
  expect((await fixture.ledger.read(sandbox.id))?.calls).toMatchObject([{ clientLeft: true }])
})

test('cancels an answer that is not read', async () => {
  await using fixture = await openGatewayFixture((response) => beginEvents(response).write(EVENTS[0]), {
    options: { drainMs: 50 },
  })
  const sandbox = await fixture.sandbox()
  const leave = new AbortController()

  const answer = await sandbox.post('/v1/messages', STREAM, { signal: leave.signal })
  await answer.body?.getReader().read()
  leave.abort()

  await expect.poll(async () => (await sandbox.totals()).calls).toMatchObject({ cut: 1, open: 0 })
})

test('applies backpressure if the client does not read', async () => {
  let sent = 0
  await using fixture = await openGatewayFixture(
    (response) => {
      beginEvents(response)
      const more = () => {
        do sent += 65_536
        while (response.write(`: ${'x'.repeat(65_532)}\n\n`))
      }
      response.on('drain', more)
      more()
    },
    { options: { idleMs: 300, drainBytes: 1024 } },
  )
  const sandbox = await fixture.sandbox()

  const answer = await sandbox.post('/v1/messages', STREAM)
  await expect.poll(async () => (await sandbox.totals()).calls, { timeout: 10_000 }).toMatchObject({ cut: 1 })

  expect(answer.status).toBe(200)
  expect(sent).toBeLessThan(64 * 1024 * 1024)
  await answer.body?.cancel().catch(() => {})
})

test('decompresses and meters a compressed answer', async () => {
  await using fixture = await openGatewayFixture((response) =>
    response
      .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
      .end(gzipSync(JSON.stringify(message()))),
  )
  const sandbox = await fixture.sandbox()
  const answer = await sandbox.post('/v1/messages', messagesRequest())
  expect(await answer.json()).toEqual(message())
  expect((await sandbox.totals()).costMicros).toBe(111)
})

test('lets open calls end when it stops, then aborts and settles the rest', async () => {
  const go = Promise.withResolvers<void>()
  await using fixture = await openGatewayFixture(async (response, _, place) => {
    beginEvents(response).write(EVENTS[0])
    if (place === 1) return
    await go.promise
    response.end(EVENTS.slice(1).join(''))
  })
  const [ends, hangs] = [await fixture.sandbox(), await fixture.sandbox()]
  const one = await ends.post('/v1/messages', STREAM)
  const other = await hangs.post('/v1/messages', STREAM)

  const stopping = fixture.gateway.stop(500)
  const late = await ends.post('/v1/messages', messagesRequest()).catch(() => undefined)
  go.resolve()

  expect(await one.text()).toBe(EVENTS.join(''))
  await expect(other.text()).rejects.toThrow()
  await stopping
  expect([undefined, 503]).toContain(late?.status) // there may be no connection left
  expect(await ends.totals()).toMatchObject({ costSource: 'metered', calls: { succeeded: 1 } })
  expect(await hangs.totals()).toMatchObject({ costSource: 'estimated', calls: { cut: 1, open: 0 } })
})

test('sends nothing while the ledger is unavailable', async () => {
  const lines: string[] = []
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()), {
    log: createLog('warn', (line) => lines.push(line)),
  })
  const sandbox = await fixture.sandbox()
  fixture.ledger.reserve = () => Promise.reject(new Error('the database is away'))

  const answer = await sandbox.post('/v1/messages', messagesRequest())

  expect(answer.status).toBe(500)
  expect(fixture.received).toEqual([])
  expect(lines.join('')).toContain('the database is away')
  expect(lines.join('')).not.toContain(sandbox.token)
})

test('thousands of concurrent calls stay within the budget to the micro-dollar', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()), {
    options: { callsAtOnce: 5000, tunnelsAtOnce: 5000 },
  })
  const sandbox = await fixture.sandbox({ budgetMicros: 100_000, callsMax: 5000 })

  const answers: number[] = []
  const one = async () => {
    const answer = await sandbox.post('/v1/messages', messagesRequest())
    await answer.arrayBuffer()
    answers.push(answer.status)
  }
  // More connections at the same instant than this are lost in the queues of the kernel, before they come to us.
  for (let wave = 0; wave < 8; wave++) await Promise.all(Array.from({ length: 250 }, one))

  const totals = await sandbox.totals()
  const made = answers.filter((status) => status === 200).length
  expect(made).toBe(fixture.received.length)
  expect(totals).toMatchObject({ costMicros: made * 111, costSource: 'metered', calls: { succeeded: made, open: 0 } })
  expect(totals.costMicros).toBeLessThanOrEqual(100_000)
  expect(new Set(answers)).toEqual(new Set([200, 402]))
})
