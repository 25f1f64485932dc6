import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import {
  beginEvents,
  message,
  messagesRequest,
  newGrantFacts,
  openGatewayFixture,
  sendJson,
  TERMS,
  USAGE,
} from '../../test/support/gateway/gateway.ts'
import { newId } from '../platform/ids.ts'
import { listGranteeCalls } from './spend/spend.ts'
import { createStoredLedger } from './stored-ledger.ts'

// Whoever adds a model names an address. What answers there says what it likes.

let database: TestDatabase
const workspaceId = newId()
beforeAll(async () => {
  database = await testDatabase({ workspaceId })
})
afterAll(() => database[Symbol.asyncDispose]())

const inDatabase = () => ({
  ledger: createStoredLedger(database.db),
  options: { answerBytes: 1024 * 1024, drainMs: 50 },
})

const ITERATION = { type: 'compaction', input_tokens: 1e8, output_tokens: 1e8 }

test.each<[string, object]>([
  ['a name of a megabyte', { model: 'x'.repeat(1_000_000) }],
  ['a name that is no text', { model: 'a\u0000b\ud800' }],
  ['a tier that is no text', { usage: { ...USAGE, service_tier: `\u0000${'y'.repeat(1_000_000)}` } }],
  ['less than nothing', { usage: { input_tokens: -1, output_tokens: -5 } }],
  ['more than there is', { usage: { input_tokens: 1e300, output_tokens: 9e15 } }],
  ['half a token', { usage: { input_tokens: 0.5, output_tokens: '5' } }],
  ['much, often', { usage: { ...USAGE, iterations: Array.from({ length: 2000 }, () => ITERATION) } }],
])('settles an answer with %s and stores little of it', async (_, changes) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message(changes)), inDatabase())
  const facts = newGrantFacts({ workspaceId })
  const prices = { input: 100_000, output: 100_000 }
  const sandbox = await fixture.sandbox({ ...facts, terms: { ...TERMS, prices } })

  const answer = await sandbox.post('/v1/messages', messagesRequest())
  await answer.text()

  expect(answer.status).toBe(200)
  const calls = await listGranteeCalls(database.db, facts, { limit: 10 })
  expect(calls).toMatchObject([{ outcome: 'succeeded', status: 200 }])
  expect(JSON.stringify(calls).length).toBeLessThan(2000)
  // As the worker keeps them with the trial.
  const served = JSON.stringify((await sandbox.totals()).modelsServed)
  await database.pool.query('select $1::jsonb', [served])
})

/** What no server of ours would say. */
async function rawProvider(answer: (socket: Socket) => unknown) {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => answer(socket))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
  return { url, [Symbol.asyncDispose]: async () => void server.close() }
}

const BODY = JSON.stringify(message())
const HEAD = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(BODY)}\r\n`

test.each<[string, string]>([
  ['headers in other letters', `HTTP/1.1 200 OK\r\nX-Greeting: 你好\r\n${HEAD}\r\n${BODY}`],
  ['cookies and another way', `HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nConnection: x-y\r\nX-Y: 1\r\n${HEAD}\r\n${BODY}`],
  ['a hint before', `HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n${HEAD}\r\n${BODY}`],
])('relays and settles an answer once with %s', async (_, raw) => {
  await using provider = await rawProvider((socket) => socket.end(raw))
  const resolveUpstream = () => ({ url: provider.url, trust: 'operator' as const })
  await using fixture = await openGatewayFixture(() => {}, { ...inDatabase(), tools: { resolveUpstream } })
  const sandbox = await fixture.sandbox({ workspaceId })

  const answer = await sandbox.post('/v1/messages', messagesRequest())

  expect([answer.status, await answer.text()]).toEqual([200, BODY])
  for (const name of ['set-cookie', 'x-y']) expect(answer.headers.get(name)).toBeNull()
  expect(await sandbox.totals()).toMatchObject({ costMicros: 111, calls: { succeeded: 1, open: 0 } })
})

test.each<[string, string]>([
  ['gigantic headers', `HTTP/1.1 200 OK\r\nX-Much: ${'x'.repeat(300_000)}\r\n${HEAD}\r\n${BODY}`],
  ['no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n'],
  ['another protocol', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'],
  ['nothing, at length', `HTTP/1.1 204 No Content\r\n${HEAD}\r\n${BODY}`],
  ['two lengths', `HTTP/1.1 200 OK\r\nContent-Length: 3\r\n${HEAD}\r\n${BODY}`],
  ['a number that is no status', `HTTP/1.1 099 Odd\r\n${HEAD}\r\n${BODY}`],
])('leaves no call open after %s', async (_, raw) => {
  await using provider = await rawProvider((socket) => socket.end(raw))
  const resolveUpstream = () => ({ url: provider.url, trust: 'operator' as const })
  await using fixture = await openGatewayFixture(() => {}, { ...inDatabase(), tools: { resolveUpstream } })
  const sandbox = await fixture.sandbox({ workspaceId })
  const answer = await sandbox.post('/v1/messages', messagesRequest())
  await answer.text().catch(() => '')
  const { calls } = await sandbox.totals()
  expect(calls).toMatchObject({ open: 0, succeeded: 0 })
  expect(calls.failed + calls.cut).toBe(1)
})

test('cuts an endless answer at the size limit', async () => {
  await using fixture = await openGatewayFixture((response) => {
    beginEvents(response)
    const more = () => {
      while (!response.destroyed && response.write(`: ${'x'.repeat(65_532)}\n\n`));
    }
    response.on('drain', more)
    more()
  }, inDatabase())
  const sandbox = await fixture.sandbox({ workspaceId })
  const answer = await sandbox.post('/v1/messages', messagesRequest({ stream: true }))
  await expect(answer.text()).rejects.toThrow()
  expect((await sandbox.totals()).calls).toMatchObject({ cut: 1, open: 0 })
})
