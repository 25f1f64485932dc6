import { request as sendRequest } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import {
  message,
  messagesRequest,
  OPERATOR_KEY,
  openGatewayFixture,
  type SandboxClient,
  sendJson,
  TERMS,
} from '../../test/support/gateway/gateway.ts'
import { closeGrant } from './grants.ts'

const openOrdinary = (options = {}) => openGatewayFixture((response) => sendJson(response, message()), { options })

const PATHS = ['/v1/messages', '/v1/chat/completions', '/v1/responses', '/v1beta/models/large-1:generateContent']

test.each(PATHS)('rejects the token of another trial at %s in the provider’s format', async (path) => {
  await using fixture = await openOrdinary()
  const [mine, other] = [await fixture.sandbox(), await fixture.sandbox()]

  for (const headers of [{ 'x-api-key': other.token }, { 'x-api-key': '' }, { 'x-api-key': mine.tunnelSecret }]) {
    const answer = await mine.post(path, messagesRequest(), { headers })
    expect(answer.status).toBe(401)
    expect(await answer.json()).toHaveProperty('error.message')
  }
  expect(fixture.received).toEqual([])
  expect((await mine.totals()).refusals).toEqual({ token: 3 })
})

test.each<[string, (token: string) => [string, Record<string, string>]]>([
  ['x-api-key', (token) => ['', { 'x-api-key': token }]],
  ['a bearer', (token) => ['', { authorization: `Bearer ${token}`, 'x-api-key': '' }]],
  ['x-goog-api-key', (token) => ['', { 'x-goog-api-key': token, 'x-api-key': '' }]],
  ['the query', (token) => [`?key=${token}`, { 'x-api-key': '' }]],
])('accepts the token in %s', async (_, place) => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const [query, headers] = place(sandbox.token)

  const answer = await sandbox.post(`/v1/messages${query}`, messagesRequest(), { headers })

  expect(answer.status).toBe(200)
  expect(JSON.stringify(fixture.received)).not.toContain(sandbox.token)
})

test('serves only health and metrics outside of tunnels, and neither inside', async () => {
  await using fixture = await openOrdinary()
  const { token, url } = await fixture.sandbox()
  const at = (path: string, key?: string) =>
    fetch(`${fixture.gateway.url}${path}`, {
      headers: { 'x-api-key': token, ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    })

  expect((await at('/healthz')).status).toBe(200)
  expect(await (await at('/metrics', OPERATOR_KEY)).text()).toContain('assay_gateway_calls_total')
  for (const key of [undefined, token, `${OPERATOR_KEY}x`]) expect((await at('/metrics', key)).status).toBe(401)
  for (const path of ['/healthz', '/metrics'])
    expect((await fetch(`${url}${path}`, { headers: { 'x-api-key': token } })).status, path).toBe(404)
  expect((await at('/v1/models')).status).toBe(403)
  expect((await fetch(`${fixture.gateway.url}/v1/messages`, { method: 'POST', body: '{}' })).status).toBe(403)
})

/** The status of a CONNECT. */
function dial(url: string, path: string, headers: Record<string, string>): Promise<number | undefined> {
  const { hostname: host, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const request = sendRequest({ host, port, method: 'CONNECT', path, headers, agent: false })
    request.on('connect', (answer, socket) => {
      socket.destroy()
      resolve(answer.statusCode)
    })
    request.on('error', reject)
    request.end()
  })
}

test('a gateway without the master key in use is not ready and opens no tunnels', async () => {
  let holdsMasterKey = true
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()), {
    tools: { holdsMasterKey: () => holdsMasterKey },
  })
  const { tunnelSecret } = await fixture.sandbox()
  const readiness = async () => (await fetch(`${fixture.gateway.url}/readyz`)).status
  const open = () => dial(fixture.gateway.url, 'gateway:80', { 'proxy-authorization': `Bearer ${tunnelSecret}` })
  expect([await readiness(), await open()]).toEqual([200, 200])
  holdsMasterKey = false
  expect([await readiness(), await open()]).toEqual([503, 503])
})

test('a tunnel requires the tunnel secret and leads only to the gateway', async () => {
  await using fixture = await openOrdinary()
  const { token, tunnelSecret, url } = await fixture.sandbox()
  const as = (secret: string) => ({ 'proxy-authorization': `Bearer ${secret}` })

  expect(await dial(fixture.gateway.url, 'gateway:80', {})).toBe(407)
  expect(await dial(fixture.gateway.url, 'gateway:80', as(token))).toBe(407)
  expect(await dial(fixture.gateway.url, 'example.com:443', as(tunnelSecret))).toBe(403)
  expect(await dial(fixture.gateway.url, 'gateway:80', as(tunnelSecret))).toBe(200)
  // From inside of one there is no way into another.
  expect(await dial(url, 'gateway:80', as(tunnelSecret))).toBe(403)
})

test.each<[string, Parameters<typeof messagesRequest>[0], number, string]>([
  ['another model', { model: 'huge-1' }, 404, 'model'],
  ['a model whose name is no text', { model: ['large-1'] }, 404, 'model'],
  ['a helper that is not wanted', { model: 'small-9' }, 404, 'model'],
  ['a search by the provider', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 400, 'hosted'],
  ['a picture by its address', { messages: [image('https://evil.example/?q=secret')] }, 400, 'hosted'],
])('refuses %s before anything is sent', async (_, changes, status, reason) => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()

  const answer = await sandbox.post('/v1/messages', messagesRequest(changes))

  expect(answer.status).toBe(status)
  expect(await answer.json()).toMatchObject({ type: 'error', error: { message: expect.stringMatching(/\w/) } })
  expect(fixture.received).toEqual([])
  expect(await sandbox.totals()).toMatchObject({
    refusals: { [reason]: 1 },
    costMicros: 0,
    lastFailure: { kind: reason },
  })
})

function image(url: string) {
  return { role: 'user', content: [{ type: 'image', source: { type: 'url', url } }] }
}

test('maps an auxiliary model to the model of the trial and counts it separately', async () => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()

  const { output_config: _, ...request } = messagesRequest({ model: 'small-3' })
  expect((await sandbox.post('/v1/messages', request)).status).toBe(200)

  expect(JSON.parse(String(fixture.received[0]?.body))).toEqual({ ...request, model: 'large-1' })
  expect(await sandbox.totals()).toMatchObject({ helperCalls: 1, levelMismatches: 0, costMicros: 111 })
})

test.each<[unknown, object | null]>([
  [{ output_config: { effort: 'low' } }, { effort: 'low' }],
  [{ output_config: {} }, { unsaid: true }],
  [{ output_config: {}, thinking: { type: 'disabled' } }, { off: true }],
  [{ output_config: { effort: 'HIGH' } }, null],
])('records a reasoning level that differs from the setting without refusing it: %j', async (changes, levelAsked) => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()

  expect((await sandbox.post('/v1/messages', messagesRequest(Object(changes)))).status).toBe(200)

  expect(await sandbox.totals()).toMatchObject({ levelMismatches: levelAsked ? 1 : 0, levelAsked })
})

test.each<[string, string | Uint8Array]>([
  ['no JSON', 'hello'],
  ['a list', '[]'],
  ['null', 'null'],
  ['half of it', '{"model":"large-1"'],
  ['no UTF-8', Buffer.from('{"model":"large-1","a":"\xff"}', 'latin1')],
  ['two models', '{"model":"large-1","max_tokens":5,"model":"huge-1"}'],
  ['two kinds of one tool', '{"model":"large-1","tools":[{"type":"custom","type":"web_search_20250305"}]}'],
  ['the same name, written otherwise', '{"model":"large-1","mo\\u0064el":"huge-1"}'],
  ['a million brackets', '['.repeat(1_000_000)],
  ['nothing', ''],
])('refuses a body that is %s', async (_, body) => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()

  expect((await sandbox.post('/v1/messages', body)).status).toBe(400)
  expect(fixture.received).toEqual([])
})

test('ignores member names inside strings when it looks for duplicates', async () => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const content = 'a "model": "x", \\ and {"model":"y","model":"z"} \\" : '

  expect(
    (await sandbox.post('/v1/messages', messagesRequest({ messages: [{ content, model: 1 }], '': { '': 1 } }))).status,
  ).toBe(200)
})

test.each<[string, (bytes: Buffer) => Buffer]>([
  ['gzip', gzipSync],
  ['br', brotliCompressSync],
  ['zstd', zstdCompressSync],
  ['deflate', deflateSync],
])('decompresses %s, stops decompression bombs and refuses invalid data', async (encoding, pack) => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const send = (body: Buffer) => sandbox.post('/v1/messages', body, { headers: { 'content-encoding': encoding } })

  const good = await send(pack(Buffer.from(JSON.stringify(messagesRequest()))))
  const bomb = pack(Buffer.alloc(64 * 1024 * 1024, 'a'))
  const large = await send(bomb)
  const rubbish = await send(Buffer.from('this is packed by nobody'))

  expect(bomb.length).toBeLessThan(1024 * 1024)
  expect([good.status, large.status, rubbish.status]).toEqual([200, 413, 400])
  expect(fixture.received).toHaveLength(1)
  expect(fixture.received[0]?.headers).not.toHaveProperty('content-encoding')
  expect(JSON.parse(String(fixture.received[0]?.body))).toEqual(messagesRequest())
})

test('refuses an unknown content encoding', async () => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const answer = await sandbox.post('/v1/messages', messagesRequest(), {
    headers: { 'content-encoding': 'gzip, gzip' },
  })
  expect(answer.status).toBe(400)
})

test('refuses a request that is too large, whatever its declared length', async () => {
  await using fixture = await openOrdinary({ requestBytes: 100_000 })
  const sandbox = await fixture.sandbox()

  const plain = await sandbox.post('/v1/messages', messagesRequest({ messages: 'x'.repeat(100_000) }))

  expect(plain.status).toBe(413)
  expect((await sandbox.totals()).refusals).toEqual({ size: 1 })
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(200)
})

test('limits concurrent calls and bytes per sandbox', async () => {
  const go = Promise.withResolvers<void>()
  await using fixture = await openGatewayFixture(
    async (response) => {
      await go.promise
      sendJson(response, message())
    },
    { options: { callsAtOnce: 2, requestBytesAtOnce: 1000 } },
  )
  const [sandbox, other] = [await fixture.sandbox(), await fixture.sandbox()]
  const large = messagesRequest({ messages: 'x'.repeat(700) })

  const first = sandbox.post('/v1/messages', large)
  await expect.poll(() => fixture.received.length).toBe(1)
  expect((await sandbox.post('/v1/messages', large)).status).toBe(429)
  const second = sandbox.post('/v1/messages', messagesRequest())
  await expect.poll(() => fixture.received.length).toBe(2)
  const third = await sandbox.post('/v1/messages', messagesRequest())
  expect([third.status, third.headers.get('retry-after')]).toEqual([429, '1'])
  const others = other.post('/v1/messages', large)
  go.resolve()
  expect((await Promise.all([first, second, others])).map(({ status }) => status)).toEqual([200, 200, 200])
})

const expectEnd = async (sandbox: SandboxClient, path: string, reason: string) => {
  const answer = await sandbox.post(path, messagesRequest())
  expect(answer.status).toBe(402)
  expect(await answer.json()).toHaveProperty('error.message')
  expect(await sandbox.totals()).toMatchObject({ lastFailure: { kind: reason } })
}

test.each(PATHS)('answers 402 at %s for a closed, expired or exhausted grant', async (path) => {
  await using fixture = await openOrdinary()
  const closed = await fixture.sandbox()
  await closeGrant(fixture.ledger, closed.id)

  await expectEnd(closed, path, 'closed')
  await expectEnd(await fixture.sandbox({ expiresAt: new Date(Date.now() - 1) }), path, 'expired')
  await expectEnd(await fixture.sandbox({ callsMax: 0 }), path, 'calls')
  await expectEnd(await fixture.sandbox({ budgetMicros: 10 }), path, 'budget')
  await expectEnd(await fixture.sandbox({ budgetMicros: 10, terms: { ...TERMS, prices: null } }), path, 'price')
  expect(fixture.received).toEqual([])
})

test('allows a model without a price if there is no budget, at an unknown cost', async () => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox({ terms: { ...TERMS, prices: null } })

  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(200)

  expect(await sandbox.totals()).toMatchObject({ costMicros: null, costSource: 'unknown', usage: { input: 12 } })
})

test('refuses calls once the budget is spent', async () => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox({ budgetMicros: 3000 })

  const statuses: number[] = []
  while (!statuses.includes(402)) statuses.push((await sandbox.post('/v1/messages', messagesRequest())).status)

  const { costMicros, calls } = await sandbox.totals()
  expect(costMicros).toBe(calls.succeeded * 111)
  expect(costMicros).toBeLessThanOrEqual(3000)
  expect(costMicros).toBeGreaterThan(3000 - 2500) // one call reserves up to 100 tokens of output and its own bytes
})

test('answers 404 for protocols and paths outside the grant', async () => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox({ terms: { ...TERMS, protocols: ['openai-chat'] } })

  for (const path of ['/v1/messages', '/v1/files', '/', '/v1/chat/completions/../messages', '//v1/chat/completions']) {
    expect((await raw(sandbox, `POST ${path} HTTP/1.1\r\nHost: x\r\nx-api-key: ${sandbox.token}`, '{}')).status).toBe(
      404,
    )
  }
  expect(fixture.received).toEqual([])
})

/** By hand, as no decent client would send it. The answer's status is 0 when there is none. */
async function raw({ url }: SandboxClient, head: string, body = ''): Promise<{ status: number; text: string }> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  const length = /content-length|transfer-encoding/i.test(head) ? '' : `\r\nContent-Length: ${body.length}`
  socket.end(`${head}${length}\r\nConnection: close\r\n\r\n${body}`)
  const answer = await text(socket).catch(() => '')
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0), text: answer }
}

test.each<[string, string]>([
  ['two lengths', 'Content-Length: 5\r\nContent-Length: 6'],
  ['a length and chunks', 'Content-Length: 5\r\nTransfer-Encoding: chunked'],
  ['chunks in disguise', 'Transfer-Encoding: xchunked'],
  ['a folded header', 'X-One: a\r\n\tb: c\r\nContent-Length: 1x'],
  ['a bare line feed', 'X-One: a\nContent-Length: 5\r\nX-Two: b\r\nContent-Length: 7'],
])('refuses an ambiguous request with %s', async (_, headers) => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const head = `POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: ${sandbox.token}\r\n${headers}`

  const { status } = await raw(sandbox, head, '0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n')

  expect(status).toBe(400)
  expect(fixture.received).toEqual([])
})

test('headers cannot inject or override other headers', async () => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const body = JSON.stringify(messagesRequest())
  const evil = [
    'Anthropic-Beta: a\\r\\nx-api-key: other',
    'Connection: x-keep, x-api-key',
    'X-Goog-FieldMask: candidates',
    'Cookie: a=b',
  ]
  const head = `POST /v1/messages HTTP/1.1\r\nHost: evil.example\r\nx-api-key: ${sandbox.token}\r\n${evil.join('\r\n')}\r\nx-keep: hop`

  expect((await raw(sandbox, head, body)).status).toBe(200)

  const headers = fixture.received[0]?.headers ?? {}
  expect(headers['x-api-key']).toBe('sk-canary-0123456789abcdef')
  expect(headers).not.toHaveProperty('anthropic-beta')
  for (const name of ['x-keep', 'x-goog-fieldmask', 'cookie']) expect(headers).not.toHaveProperty(name)
  expect(headers.host).toMatch(/^127\.0\.0\.1:/)
})

test('answers model lists itself and forwards token counts for free', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, { input_tokens: 7 }))
  const sandbox = await fixture.sandbox({ budgetMicros: 0 })
  const get = (path: string, more: RequestInit = {}) =>
    fetch(`${sandbox.url}${path}`, { headers: { 'x-api-key': sandbox.token }, ...more })

  expect((await get('/api/hello', { method: 'HEAD', headers: {} })).status).toBe(200)
  expect(await (await get('/v1/models')).json()).toMatchObject({ data: [{ id: 'large-1', type: 'model' }] })
  expect(await (await get('/v1beta/models')).json()).toMatchObject({ models: [{ name: 'models/large-1' }] })
  expect(fixture.received).toEqual([])
  const counted = await sandbox.post('/v1/messages/count_tokens', messagesRequest())
  expect([counted.status, await counted.json()]).toEqual([200, { input_tokens: 7 }])
  expect(fixture.received.map(({ path }) => path)).toEqual(['/v1/messages/count_tokens'])
  expect(await sandbox.totals()).toMatchObject({ costMicros: 0, tokenCounts: 1, calls: { succeeded: 0 } })
})

test('answers a WebSocket upgrade with 426', async () => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const upgrade = 'Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13'
  const head = `GET /v1/responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${sandbox.token}\r\n${upgrade}`

  expect((await raw(sandbox, head)).status).toBe(426)
})

test('disconnects a client that never completes its request', async () => {
  await using fixture = await openOrdinary({ requestMs: 300 })
  const sandbox = await fixture.sandbox()
  const { hostname, port } = new URL(sandbox.url)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.write(`POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: ${sandbox.token}\r\nContent-Length: 100\r\n\r\n{`)

  expect(await text(socket)).toMatch(/^(HTTP\/1\.1 408 |$)/)
  expect(fixture.received).toEqual([])
})
