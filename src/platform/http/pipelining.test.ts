import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../../test/support/app.ts'
import { listen, PIPELINED_MAX } from '../listen.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const toRequest = (path: string, more = ''): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`

async function openConnection(url = app.url) {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  await once(socket, 'connect')
  return socket
}

const countRequests = (operation: string): number => app.logged().split(`"operation":"${operation}"`).length - 1

test('requests that a client sends before it has read the answers are answered in their order', async () => {
  const socket = await openConnection()
  const paths = Array.from({ length: PIPELINED_MAX - 1 }, (_, index) => `/api/public/results/acme/missing-${index}`)
  socket.write(paths.map((path) => toRequest(path, `X-Request-Id: id-${path.at(-1)}\r\n`)).join(''))
  socket.write(toRequest('/api/public/results', 'Connection: close\r\n'))

  const answers = await text(socket)
  const ids = [...answers.matchAll(/^x-request-id: id-(\d)\r$/gm)].map(([, id]) => id)
  expect(ids).toEqual(paths.map((path) => path.at(-1)))
  expect(answers.match(/HTTP\/1\.1 \d+/g)?.at(-1)).toBe('HTTP/1.1 200')
})

test('a client that sends thousands of requests at once is disconnected before they take memory', async () => {
  const socket = await openConnection()
  socket.on('error', () => {})
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.write(toRequest('/api/orgs/local/evaluations').repeat(5_000))
  socket.resume()
  await closed
  expect(countRequests('listComparisons')).toBeLessThanOrEqual(PIPELINED_MAX + 1)
  expect((await app.fetch('/healthz')).status).toBe(200)
})

test('a client that does not read its answer is disconnected after a while', async () => {
  const closed = Promise.withResolvers<void>()
  const handle: RequestListener = (_, outgoing) => {
    outgoing.once('close', closed.resolve)
    outgoing.end('x'.repeat(50_000_000))
  }
  const server = await listen(handle, '127.0.0.1', 0, 100)
  const socket = await openConnection(server.url)
  socket.on('error', () => {})
  socket.pause()
  socket.write(toRequest('/'))
  await closed.promise
  socket.destroy()
  await server.stop(0)
})

test('a connection without a request is closed after a while', async () => {
  const socket = await openConnection()
  socket.write(toRequest('/healthz'))
  socket.resume()
  await once(socket, 'close')
})
