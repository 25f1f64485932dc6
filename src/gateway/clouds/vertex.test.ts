import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  type FakeVertex,
  serviceAccount,
  startVertex,
  VERTEX_BASE,
} from '../../../test/support/gateway/clouds/vertex.ts'
import {
  type GatewayFixture,
  messagesRequest,
  openGatewayFixture,
  TERMS,
} from '../../../test/support/gateway/gateway.ts'
import type { Trust } from '../../platform/outbound/outbound.ts'

const LOOPBACK = { networks: [{ address: '127.0.0.0', prefixLength: 8, family: 'ipv4' as const }] }
const MODEL = 'claude-sonnet-4-5@20250929'

let vertex: FakeVertex
let fixture: GatewayFixture
let trust: Trust
beforeEach(async () => {
  trust = LOOPBACK
  vertex = await startVertex({ tasks: [{ match: 'hello', turns: [{ say: 'Done so.' }] }] })
  fixture = await openGatewayFixture(() => {}, {
    tools: {
      resolveUpstream: () => ({ url: `${vertex.url}${VERTEX_BASE}`, trust }),
      openSecret: async () => ({ serviceAccount: serviceAccount(vertex.url) }),
    },
  })
})
afterEach(async () => {
  await fixture[Symbol.asyncDispose]()
  await vertex[Symbol.asyncDispose]()
})

const connect = async () => {
  const sandbox = await fixture.sandbox({ terms: { ...TERMS, model: MODEL, cloud: 'vertex' } })
  const ask = async (path = '/v1/messages', init: RequestInit = {}) =>
    (await sandbox.post(path, messagesRequest({ model: MODEL, max_tokens: 50_000 }), init)).status
  return { ...sandbox, ask, calls: async () => (await fixture.ledger.read(sandbox.id))?.calls }
}

test('calls share one token, also at the same time', async () => {
  const { ask } = await connect()
  expect(await Promise.all([ask(), ask(), ask()])).toEqual([200, 200, 200])
  expect(await ask()).toBe(200)
  expect(vertex.countTokens()).toBe(1)
})

test('a token is replaced before it expires', async () => {
  vertex.setLifetime(299)
  const { ask } = await connect()
  await ask()
  await ask()
  expect(vertex.countTokens()).toBe(2)
})

test('a revoked token is replaced within the call', async () => {
  const { ask } = await connect()
  await ask()
  vertex.revokeTokens()
  expect(await ask()).toBe(200)
  expect(vertex.countTokens()).toBe(2)
})

test('a failure of the token service is retried like one of the provider', async () => {
  vertex.failNextToken(503)
  const { ask, calls } = await connect()
  expect(await ask()).toBe(200)
  expect(await calls()).toMatchObject([{ outcome: 'succeeded', tries: 2 }])
})

test('a private address of the token service is refused, even if the operator chose the address of the model', async () => {
  trust = 'operator'
  const { ask } = await connect()
  expect(await ask()).toBe(502)
  expect(vertex.requests).toEqual([])
})

test('sends versions where Vertex AI expects them, and only betas that it has', async () => {
  const { ask } = await connect()
  await ask('/v1/messages?beta=true', {
    headers: {
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'claude-code-20250219,interleaved-thinking-2025-05-14',
    },
  })
  const sent = vertex.requests.at(-1)
  expect(sent?.path).toBe(`${VERTEX_BASE}/publishers/anthropic/models/${MODEL}:rawPredict`)
  expect(sent?.headers).toMatchObject({ 'anthropic-beta': 'interleaved-thinking-2025-05-14' })
  expect(sent?.headers).not.toHaveProperty('anthropic-version')
  expect(sent?.headers).not.toHaveProperty('x-api-key')
  expect(JSON.parse(sent?.body.toString() ?? '')).toMatchObject({ anthropic_version: 'vertex-2023-10-16' })
})

test('counts tokens', async () => {
  const { post } = await connect()
  const answer = await post('/v1/messages/count_tokens', messagesRequest({ model: MODEL }))
  expect(await answer.json()).toEqual({ input_tokens: 7 })
})

test('an error of Google has the form of the protocol', async () => {
  vertex.addFault({ status: 429, message: 'Quota exceeded.', times: 9 })
  const { post } = await connect()
  const answer = await post('/v1/messages', messagesRequest({ model: MODEL }))
  expect(await answer.json()).toMatchObject({
    type: 'error',
    error: { type: 'rate_limit_error', message: 'Quota exceeded.' },
  })
})
