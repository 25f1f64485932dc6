import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../../test/support/app.ts'
import { createApp } from '../../app.ts'
import { newKey } from '../../workspaces/key.ts'
import { createSession } from '../../workspaces/schema.ts'
import { listen } from '../listen.ts'
import { Problem, requestTimeout, unauthenticated } from '../problem.ts'
import { readBody } from './input.ts'
import { createRateLimiter, limitSignIn } from './rate-limit.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp({ ASSAY_TRUSTED_PROXIES: '127.0.0.1', ASSAY_RATE_LIMIT: '50' })
})
afterAll(async () => app[Symbol.asyncDispose]())

/** As a proxy forwards it for this client. */
const signIn = async (address: string, key: string) => {
  const headers = { 'x-forwarded-for': address }
  return (await app.call(createSession, { key: null, body: { key }, headers })).status
}

const halfOpenSignIn = (url: string) => openRequest(url, '/api/session', ['Content-Type: application/json'])

/** Sends the head of a request and the first bytes of its body. */
async function openRequest(url: string, path: string, headers: string[]): Promise<Socket> {
  const { hostname: host, port } = new URL(url)
  const socket = connect({ host, port: Number(port) })
  const head = [`POST ${path} HTTP/1.1`, 'Host: assay', 'Content-Length: 10000', ...headers]
  await new Promise((resolve) => socket.write(`${head.join('\r\n')}\r\n\r\n{"key":`, resolve))
  return socket
}

test('requests whose body never arrives use up no tokens of their address', async () => {
  const sockets = await Promise.all(Array.from({ length: 100 }, () => halfOpenSignIn(app.url)))
  expect(await signIn('127.0.0.1', app.adminKey)).toBe(201)
  expect((await app.fetch('/api/public/results')).status).toBe(200)
  for (const socket of sockets) socket.destroy()
})

test('a slowly sent body is 408 at its deadline, however often a byte arrives', async () => {
  const drip = () =>
    new ReadableStream<Uint8Array<ArrayBuffer>>({
      async pull(controller) {
        await new Promise(setImmediate)
        controller.enqueue(new Uint8Array(1))
      },
    })
  const readAll = () => Array.fromAsync(readBody(drip(), { ms: 50, per: 'body' }))
  await expect(readAll()).rejects.toMatchObject({ kind: requestTimeout })
})

test('a stalled body or upload is 408 and closes its connection', async () => {
  const impatient = { ...app.tools, waits: { ...app.tools.waits, bodyMs: 100 } }
  const listening = await listen(createApp(impatient).handle, '127.0.0.1', 0)
  const upload = '/api/orgs/local/repos/acme/widgets/batches/import'
  const stopped = await halfOpenSignIn(listening.url)
  const uploading = await openRequest(listening.url, upload, [
    'Content-Type: application/gzip',
    `Authorization: Bearer ${app.adminKey}`,
  ])
  for (const socket of [stopped, uploading]) {
    const answer = await text(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(answer).toMatch(/"code":"request_timeout".*"retryable":true/)
  }
  await listening.stop(1000)
})

test('an aborted body or upload is not logged as an outage of the database', async () => {
  const countRequests = (): number => app.logged().split('"msg":"request"').length - 1
  for (const [path, type] of [
    ['/api/orgs/local/keys', 'json'],
    ['/api/orgs/local/repos/acme/widgets/batches/import', 'gzip'],
  ] as const) {
    const before = countRequests()
    const headers = [`Content-Type: application/${type}`, `Authorization: Bearer ${app.adminKey}`]
    ;(await openRequest(app.url, path, headers)).resetAndDestroy()
    await expect.poll(countRequests).toBeGreaterThan(before)
  }
  expect(app.logged()).not.toMatch(/database unavailable|request failed/)
})

test('bodies without a key do not count as failed sign-ins', async () => {
  const send = (body: string) =>
    app.fetch('/api/session', { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  for (let n = 0; n < 25; n++) expect([400, 422]).toContain((await send(n % 2 ? '{' : '{}')).status)
  expect(await signIn('127.0.0.1', app.adminKey)).toBe(201)
})

// Tokens come back while requests are under way, so that only the limiter itself, with a clock that stands, is exact.
test('refuses sign-ins after 20 failures, but accepts a valid key from the same address', async () => {
  const limiter = createRateLimiter({ requests: 20, seconds: 60 }, () => 0)
  const attempt = (secret: string, isValid: boolean) =>
    limitSignIn(limiter, { address: '198.51.100.1', secret }, async () => {
      if (!isValid) throw new Problem(unauthenticated, 'no')
      return { status: 201, text: '', headers: {} }
    }).then(
      ({ status }) => status,
      (error: Problem) => error.kind.status,
    )
  const guesses = await Promise.all(Array.from({ length: 30 }, () => attempt(newKey(), false)))
  expect(guesses).toEqual([...Array(20).fill(401), ...Array(10).fill(429)])
  const valid = newKey()
  expect(await Promise.all(Array.from({ length: 20 }, () => attempt(valid, true)))).toEqual(Array(20).fill(201))
  const outage = limitSignIn(limiter, { address: '198.51.100.2', secret: valid }, () =>
    Promise.reject(new Error('away')),
  )
  await expect(outage).rejects.toThrow('away')
  expect(limiter.take(`sign-in 198.51.100.2 ${valid.slice(0, 14)}`).ratelimit).toMatch(/r=19/)
  const same = newKey()
  const repeated = await Promise.all(Array.from({ length: 30 }, () => attempt(same, false)))
  expect(repeated.filter((status) => status === 401)).toHaveLength(0)
})

const MANY = 80

test('refuses guessing from one address without affecting other clients of the same proxy', async () => {
  const guesses = await Promise.all(Array.from({ length: MANY }, () => signIn('198.51.100.1', newKey())))
  expect(new Set(guesses)).toEqual(new Set([401, 429]))
  expect(await signIn('198.51.100.1', app.adminKey)).toBe(201)
  expect(await signIn('198.51.100.2', newKey())).toBe(401)
})

test('refuses repeated attempts with the same wrong key', async () => {
  const wrong = newKey()
  const tries = await Promise.all(Array.from({ length: MANY }, () => signIn('198.51.100.3', wrong)))
  expect(new Set(tries)).toEqual(new Set([401, 429]))
})

test('successful sign-ins are not limited', async () => {
  for (let n = 0; n < 25; n++) expect(await signIn('198.51.100.4', app.adminKey)).toBe(201)
  const atOnce = await Promise.all(Array.from({ length: 60 }, () => signIn('198.51.100.4', app.adminKey)))
  expect(new Set(atOnce)).toEqual(new Set([201]))
})

test('addresses of one IPv6 network share a limit', async () => {
  const guess = (n: number) => signIn(`2001:db8::${n}`, newKey())
  const guesses = await Promise.all(Array.from({ length: MANY }, (_, n) => guess(n)))
  expect(guesses).toContain(429)
})

test('public reads are limited by the address that a trusted proxy reports', async () => {
  const read = async (address: string) =>
    (await app.fetch('/api/public/results', { headers: { 'x-forwarded-for': address } })).status
  const statuses = await Promise.all(Array.from({ length: 200 }, () => read('203.0.113.1')))
  expect(statuses).toContain(429)
  expect(await read('203.0.113.2')).toBe(200)
})
