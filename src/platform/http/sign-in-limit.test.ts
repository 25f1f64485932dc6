import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../../test/support/app.ts'
import { createApp } from '../../app.ts'
import { newKey } from '../../workspaces/key.ts'
import { createSession } from '../../workspaces/schema.ts'
import { listen } from './listen.ts'

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
  const head = [`POST ${path} HTTP/1.1`, 'Host: assay', 'Content-Length: 1000000', ...headers]
  await new Promise((resolve) => socket.write(`${head.join('\r\n')}\r\n\r\n{"key":`, resolve))
  return socket
}

test('requests whose body never arrives use up no sign-in and no public read of their address', async () => {
  const sockets = await Promise.all(Array.from({ length: 100 }, () => halfOpenSignIn(app.url)))
  expect(await signIn('127.0.0.1', app.adminKey)).toBe(201)
  expect((await app.fetch('/api/public/results')).status).toBe(200)
  for (const socket of sockets) socket.destroy()
})

test('a body that stops, drips or is an upload that stops is 408, and its connection is closed', async () => {
  const impatient = { ...app.tools, waits: { ...app.tools.waits, bodyMs: 100 } }
  const listening = await listen(createApp(impatient), '127.0.0.1', 0)
  const upload = '/api/orgs/local/repos/acme/widgets/batches/import'
  const stopped = await halfOpenSignIn(listening.url)
  const dripping = await halfOpenSignIn(listening.url)
  const drip = setInterval(() => dripping.writable && dripping.write(' '), 10)
  dripping.on('error', () => {}) // it is written to until it is closed
  const uploading = await openRequest(listening.url, upload, [
    'Content-Type: application/gzip',
    `Authorization: Bearer ${app.adminKey}`,
  ])
  for (const socket of [stopped, dripping, uploading]) {
    const answer = await text(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(answer).toMatch(/"code":"request_timeout".*"retryable":true/)
  }
  clearInterval(drip)
  await listening.stop(1000)
})

test('bodies that hold no key are not counted as failed sign-ins', async () => {
  const send = (body: string) =>
    app.fetch('/api/session', { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  for (let n = 0; n < 25; n++) expect([400, 422]).toContain((await send(n % 2 ? '{' : '{}')).status)
  expect(await signIn('127.0.0.1', app.adminKey)).toBe(201)
})

test('failed sign-ins of one client are refused after 20, and a valid key of the same address is not', async () => {
  const address = '198.51.100.1'
  const guesses = await Promise.all(Array.from({ length: 30 }, () => signIn(address, newKey())))
  expect(guesses.filter((status) => status === 401)).toHaveLength(20)
  expect(guesses.filter((status) => status === 429)).toHaveLength(10)
  expect(await signIn(address, app.adminKey)).toBe(201)
  expect(await signIn('198.51.100.2', newKey())).toBe(401)
})

test('one key that is tried again and again is refused, whatever other keys the address sends', async () => {
  const wrong = newKey()
  const statuses: number[] = []
  for (let n = 0; n < 25; n++) statuses.push(await signIn('198.51.100.3', wrong))
  expect(statuses.slice(20)).toEqual([429, 429, 429, 429, 429])
})

test('successful sign-ins are not limited', async () => {
  for (let n = 0; n < 25; n++) expect(await signIn('198.51.100.4', app.adminKey)).toBe(201)
})

test('addresses of one IPv6 network share a limit', async () => {
  const guess = (n: number) => signIn(`2001:db8::${n}`, newKey())
  const guesses = await Promise.all(Array.from({ length: 25 }, (_, n) => guess(n)))
  expect(guesses).toContain(429)
})

test('public reads are limited by the address that a trusted proxy reports', async () => {
  const read = async (address: string) =>
    (await app.fetch('/api/public/results', { headers: { 'x-forwarded-for': address } })).status
  const statuses: number[] = []
  for (let n = 0; n < 55; n++) statuses.push(await read('203.0.113.1'))
  expect(statuses).toContain(429)
  expect(await read('203.0.113.2')).toBe(200)
})
