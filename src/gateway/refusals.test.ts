import { request as sendRequest } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { closeGrant } from './grants.ts'
import { asked, message, OPERATOR_KEY, openBench, type SandboxClient, sendJson, TERMS } from './testing/bench.ts'

const openOrdinary = (options = {}) => openBench((response) => sendJson(response, message()), { options })

const PATHS = ['/v1/messages', '/v1/chat/completions', '/v1/responses', '/v1beta/models/large-1:generateContent']

test.each(PATHS)('a token of another trial opens nothing at %s, and is refused as the provider would', async (path) => {
  await using bench = await openOrdinary()
  const [mine, other] = [await bench.sandbox(), await bench.sandbox()]

  for (const headers of [{ 'x-api-key': other.token }, { 'x-api-key': '' }, { 'x-api-key': mine.listener }]) {
    const answer = await mine.post(path, asked(), { headers })
    expect(answer.status).toBe(401)
    expect(await answer.json()).toHaveProperty('error.message')
  }
  expect(bench.arrived).toEqual([])
  expect((await mine.totals()).refusals).toEqual({ token: 3 })
})

test.each<[string, (token: string) => [string, Record<string, string>]]>([
  ['x-api-key', (token) => ['', { 'x-api-key': token }]],
  ['a bearer', (token) => ['', { authorization: `Bearer ${token}`, 'x-api-key': '' }]],
  ['x-goog-api-key', (token) => ['', { 'x-goog-api-key': token, 'x-api-key': '' }]],
  ['the query', (token) => [`?key=${token}`, { 'x-api-key': '' }]],
])('the token is taken from %s', async (_, place) => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()
  const [query, headers] = place(sandbox.token)

  const answer = await sandbox.post(`/v1/messages${query}`, asked(), { headers })

  expect(answer.status).toBe(200)
  expect(JSON.stringify(bench.arrived)).not.toContain(sandbox.token)
})

test('outside of a tunnel nothing is answered but that it lives and what it counts; inside, neither', async () => {
  await using bench = await openOrdinary()
  const { token, url } = await bench.sandbox()
  const at = (path: string, key?: string) =>
    fetch(`${bench.gateway.url}${path}`, {
      headers: { 'x-api-key': token, ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    })

  expect((await at('/healthz')).status).toBe(200)
  expect(await (await at('/metrics', OPERATOR_KEY)).text()).toContain('assay_gateway_calls_total')
  for (const key of [undefined, token, `${OPERATOR_KEY}x`]) expect((await at('/metrics', key)).status).toBe(401)
  for (const path of ['/healthz', '/metrics'])
    expect((await fetch(`${url}${path}`, { headers: { 'x-api-key': token } })).status, path).toBe(404)
  expect((await at('/v1/models')).status).toBe(403)
  expect((await fetch(`${bench.gateway.url}/v1/messages`, { method: 'POST', body: '{}' })).status).toBe(403)
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

test('a tunnel needs the listener secret, and leads to the gateway alone', async () => {
  await using bench = await openOrdinary()
  const { token, listener, url } = await bench.sandbox()
  const as = (secret: string) => ({ 'proxy-authorization': `Bearer ${secret}` })

  expect(await dial(bench.gateway.url, 'gateway:80', {})).toBe(407)
  expect(await dial(bench.gateway.url, 'gateway:80', as(token))).toBe(407)
  expect(await dial(bench.gateway.url, 'example.com:443', as(listener))).toBe(403)
  expect(await dial(bench.gateway.url, 'gateway:80', as(listener))).toBe(200)
  // From inside of one there is no way into another.
  expect(await dial(url, 'gateway:80', as(listener))).toBe(403)
})

test.each<[string, Parameters<typeof asked>[0], number, string]>([
  ['another model', { model: 'huge-1' }, 404, 'model'],
  ['a model whose name is no text', { model: ['large-1'] }, 404, 'model'],
  ['a helper that is not wanted', { model: 'small-9' }, 404, 'model'],
  ['a search by the provider', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 400, 'hosted'],
  ['a picture by its address', { messages: [image('https://evil.example/?q=secret')] }, 400, 'hosted'],
])('%s is refused before anything is sent', async (_, changes, status, reason) => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()

  const answer = await sandbox.post('/v1/messages', asked(changes))

  expect(answer.status).toBe(status)
  expect(await answer.json()).toMatchObject({ type: 'error', error: { message: expect.stringMatching(/\w/) } })
  expect(bench.arrived).toEqual([])
  expect(await sandbox.totals()).toMatchObject({
    refusals: { [reason]: 1 },
    costMicros: 0,
    lastFailure: { kind: reason },
  })
})

function image(url: string) {
  return { role: 'user', content: [{ type: 'image', source: { type: 'url', url } }] }
}

test('a helper that is pinned is answered by the model of the trial, and booked apart', async () => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()

  const { output_config: _, ...request } = asked({ model: 'small-3' })
  expect((await sandbox.post('/v1/messages', request)).status).toBe(200)

  expect(JSON.parse(String(bench.arrived[0]?.body))).toEqual({ ...request, model: 'large-1' })
  expect(await sandbox.totals()).toMatchObject({ helperCalls: 1, levelMismatches: 0, costMicros: 111 })
})

test.each<[unknown, object | null]>([
  [{ output_config: { effort: 'low' } }, { effort: 'low' }],
  [{ output_config: {} }, { unsaid: true }],
  [{ output_config: {}, thinking: { type: 'disabled' } }, { off: true }],
  [{ output_config: { effort: 'HIGH' } }, null],
])('another level than the setting’s is recorded and not refused: %j', async (changes, levelAsked) => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()

  expect((await sandbox.post('/v1/messages', asked(Object(changes)))).status).toBe(200)

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
])('a body that is %s is refused', async (_, body) => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()

  expect((await sandbox.post('/v1/messages', body)).status).toBe(400)
  expect(bench.arrived).toEqual([])
})

test('names of members in strings, and escaped quotes, are no duplicates', async () => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()
  const content = 'a "model": "x", \\ and {"model":"y","model":"z"} \\" : '

  expect((await sandbox.post('/v1/messages', asked({ messages: [{ content, model: 1 }], '': { '': 1 } }))).status).toBe(
    200,
  )
})

test.each<[string, (bytes: Buffer) => Buffer]>([
  ['gzip', gzipSync],
  ['br', brotliCompressSync],
  ['zstd', zstdCompressSync],
  ['deflate', deflateSync],
])('a request in %s is unpacked; a bomb in it is stopped; rubbish is refused', async (encoding, pack) => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()
  const send = (body: Buffer) => sandbox.post('/v1/messages', body, { headers: { 'content-encoding': encoding } })

  const good = await send(pack(Buffer.from(JSON.stringify(asked()))))
  const bomb = pack(Buffer.alloc(64 * 1024 * 1024, 'a'))
  const large = await send(bomb)
  const rubbish = await send(Buffer.from('this is packed by nobody'))

  expect(bomb.length).toBeLessThan(1024 * 1024)
  expect([good.status, large.status, rubbish.status]).toEqual([200, 413, 400])
  expect(bench.arrived).toHaveLength(1)
  expect(bench.arrived[0]?.headers).not.toHaveProperty('content-encoding')
  expect(JSON.parse(String(bench.arrived[0]?.body))).toEqual(asked())
})

test('an encoding that nobody knows is refused', async () => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()
  const answer = await sandbox.post('/v1/messages', asked(), { headers: { 'content-encoding': 'gzip, gzip' } })
  expect(answer.status).toBe(400)
})

test('a request that is too large is refused, whatever it says of its length', async () => {
  await using bench = await openOrdinary({ requestBytes: 100_000 })
  const sandbox = await bench.sandbox()

  const plain = await sandbox.post('/v1/messages', asked({ messages: 'x'.repeat(100_000) }))

  expect(plain.status).toBe(413)
  expect((await sandbox.totals()).refusals).toEqual({ size: 1 })
  expect((await sandbox.post('/v1/messages', asked())).status).toBe(200)
})

test('a sandbox has so many calls at once, and so many bytes in them', async () => {
  const go = Promise.withResolvers<void>()
  await using bench = await openBench(
    async (response) => {
      await go.promise
      sendJson(response, message())
    },
    { options: { callsAtOnce: 2, requestBytesAtOnce: 1000 } },
  )
  const [sandbox, other] = [await bench.sandbox(), await bench.sandbox()]
  const large = asked({ messages: 'x'.repeat(700) })

  const first = sandbox.post('/v1/messages', large)
  await expect.poll(() => bench.arrived.length).toBe(1)
  expect((await sandbox.post('/v1/messages', large)).status).toBe(429)
  const second = sandbox.post('/v1/messages', asked())
  await expect.poll(() => bench.arrived.length).toBe(2)
  const third = await sandbox.post('/v1/messages', asked())
  expect([third.status, third.headers.get('retry-after')]).toEqual([429, '1'])
  const others = other.post('/v1/messages', large)
  go.resolve()
  expect((await Promise.all([first, second, others])).map(({ status }) => status)).toEqual([200, 200, 200])
})

const expectEnd = async (sandbox: SandboxClient, path: string, reason: string) => {
  const answer = await sandbox.post(path, asked())
  expect(answer.status).toBe(402)
  expect(await answer.json()).toHaveProperty('error.message')
  expect(await sandbox.totals()).toMatchObject({ lastFailure: { kind: reason } })
}

test.each(PATHS)('a grant that is closed, expired or used up answers 402 at %s', async (path) => {
  await using bench = await openOrdinary()
  const closed = await bench.sandbox()
  await closeGrant(bench.ledger, closed.id)

  await expectEnd(closed, path, 'closed')
  await expectEnd(await bench.sandbox({ expiresAt: new Date(Date.now() - 1) }), path, 'expired')
  await expectEnd(await bench.sandbox({ callsMax: 0 }), path, 'calls')
  await expectEnd(await bench.sandbox({ budgetMicros: 10 }), path, 'budget')
  await expectEnd(await bench.sandbox({ budgetMicros: 10, terms: { ...TERMS, prices: null } }), path, 'price')
  expect(bench.arrived).toEqual([])
})

test('a model without a price is answered where no budget has to be held; what it cost is unknown', async () => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox({ terms: { ...TERMS, prices: null } })

  expect((await sandbox.post('/v1/messages', asked())).status).toBe(200)

  expect(await sandbox.totals()).toMatchObject({ costMicros: null, costSource: 'unknown', usage: { input: 12 } })
})

test('calls stop where the budget does', async () => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox({ budgetMicros: 3000 })

  const statuses: number[] = []
  while (!statuses.includes(402)) statuses.push((await sandbox.post('/v1/messages', asked())).status)

  const { costMicros, calls } = await sandbox.totals()
  expect(costMicros).toBe(calls.succeeded * 111)
  expect(costMicros).toBeLessThanOrEqual(3000)
  expect(costMicros).toBeGreaterThan(3000 - 2500) // one call reserves up to 100 tokens of output and its own bytes
})

test('protocols and paths that the grant does not have are not there', async () => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox({ terms: { ...TERMS, protocols: ['openai-chat'] } })

  for (const path of ['/v1/messages', '/v1/files', '/', '/v1/chat/completions/../messages', '//v1/chat/completions']) {
    expect((await raw(sandbox, `POST ${path} HTTP/1.1\r\nHost: x\r\nx-api-key: ${sandbox.token}`, '{}')).status).toBe(
      404,
    )
  }
  expect(bench.arrived).toEqual([])
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
])('a request with %s is not understood in two ways: it is refused', async (_, headers) => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()
  const head = `POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: ${sandbox.token}\r\n${headers}`

  const { status } = await raw(sandbox, head, '0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n')

  expect(status).toBe(400)
  expect(bench.arrived).toEqual([])
})

test('a header cannot bring another one with it, nor name one that we set', async () => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()
  const body = JSON.stringify(asked())
  const evil = [
    'X-Evil: a\\r\\nx-api-key: other',
    'Connection: x-keep, x-api-key',
    'X-Goog-FieldMask: candidates',
    'Cookie: a=b',
  ]
  const head = `POST /v1/messages HTTP/1.1\r\nHost: evil.example\r\nx-api-key: ${sandbox.token}\r\n${evil.join('\r\n')}\r\nx-keep: hop`

  expect((await raw(sandbox, head, body)).status).toBe(200)

  const headers = bench.arrived[0]?.headers ?? {}
  expect(headers['x-api-key']).toBe('sk-canary-0123456789abcdef')
  expect(headers['x-evil']).toBe('a\\r\\nx-api-key: other')
  for (const name of ['x-keep', 'x-goog-fieldmask', 'cookie']) expect(headers).not.toHaveProperty(name)
  expect(headers.host).toMatch(/^127\.0\.0\.1:/)
})

test('what costs nothing is answered from the grant, or sent on for nothing', async () => {
  await using bench = await openBench((response) => sendJson(response, { input_tokens: 7 }))
  const sandbox = await bench.sandbox({ budgetMicros: 0 })
  const get = (path: string, more: RequestInit = {}) =>
    fetch(`${sandbox.url}${path}`, { headers: { 'x-api-key': sandbox.token }, ...more })

  expect((await get('/api/hello', { method: 'HEAD', headers: {} })).status).toBe(200)
  expect(await (await get('/v1/models')).json()).toMatchObject({ data: [{ id: 'large-1', type: 'model' }] })
  expect(await (await get('/v1beta/models')).json()).toMatchObject({ models: [{ name: 'models/large-1' }] })
  expect(bench.arrived).toEqual([])
  const counted = await sandbox.post('/v1/messages/count_tokens', asked())
  expect([counted.status, await counted.json()]).toEqual([200, { input_tokens: 7 }])
  expect(bench.arrived.map(({ path }) => path)).toEqual(['/v1/messages/count_tokens'])
  expect(await sandbox.totals()).toMatchObject({ costMicros: 0, tokenCounts: 1, calls: { succeeded: 0 } })
})

test('a web socket is refused with 426, and the connection is not lost in it', async () => {
  await using bench = await openOrdinary()
  const sandbox = await bench.sandbox()
  const upgrade = 'Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13'
  const head = `GET /v1/responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${sandbox.token}\r\n${upgrade}`

  expect((await raw(sandbox, head)).status).toBe(426)
})

test('a client that never says what it wants is hung up on', async () => {
  await using bench = await openOrdinary({ requestMs: 300 })
  const sandbox = await bench.sandbox()
  const { hostname, port } = new URL(sandbox.url)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.write(`POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: ${sandbox.token}\r\nContent-Length: 100\r\n\r\n{`)

  expect(await text(socket)).toMatch(/^(HTTP\/1\.1 408 |$)/)
  expect(bench.arrived).toEqual([])
})
