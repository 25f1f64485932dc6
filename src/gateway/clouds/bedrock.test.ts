import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  computeSignature,
  encodeFrame,
  type FakeBedrock,
  startBedrock,
} from '../../../test/support/gateway/clouds/bedrock.ts'
import {
  type GatewayFixture,
  messagesRequest,
  openGatewayFixture,
  TERMS,
} from '../../../test/support/gateway/gateway.ts'
import { signAwsRequest } from '../../platform/outbound/aws-signature.ts'
import { wireProtocols } from '../protocols.ts'
import { decodeEventStream } from './bedrock.ts'

const KEYS = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  region: 'us-east-1',
}
const MODEL = 'anthropic.claude-sonnet-4-5-20250929-v1:0'

test('the signature of the fake is that of the example in the documentation of AWS', () => {
  const time = '20150830T123600Z'
  const signedHeaders: [string, string][] = [
    ['content-type', 'application/x-www-form-urlencoded; charset=utf-8'],
    ['host', 'iam.amazonaws.com'],
    ['x-amz-date', time],
  ]
  const query = new URLSearchParams('Action=ListUsers&Version=2010-05-08')
  const request = { method: 'GET', path: '/', query, signedHeaders, body: Buffer.of() }
  expect(computeSignature({ ...KEYS, service: 'iam', time }, request)).toBe(
    '5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7',
  )
})

test('a signature has neither the secret key nor a session token that is not given', async () => {
  const request = {
    url: 'https://bedrock-runtime.us-east-1.amazonaws.com/model/a%3A0/invoke',
    method: 'POST',
    contentType: 'application/json',
    body: Buffer.from('{}'),
  }
  const headers = await signAwsRequest(KEYS, 'bedrock', request)
  expect(Object.keys(headers).sort()).toEqual(['authorization', 'content-type', 'x-amz-content-sha256', 'x-amz-date'])
  expect(JSON.stringify(headers)).not.toContain(KEYS.secretAccessKey)
})

let bedrock: FakeBedrock
let fixture: GatewayFixture
beforeAll(async () => {
  bedrock = await startBedrock(KEYS, {
    tasks: [{ match: 'hello', turns: [{ say: 'Done so, with some more words.' }] }],
  })
  fixture = await openGatewayFixture(() => {}, {
    tools: {
      resolveUpstream: () => ({ url: bedrock.url, trust: 'operator' }),
      openSecret: async () => KEYS,
    },
  })
})
afterAll(async () => {
  await fixture[Symbol.asyncDispose]()
  await bedrock[Symbol.asyncDispose]()
})

const connect = async () => {
  const sandbox = await fixture.sandbox({ terms: { ...TERMS, model: MODEL, cloud: 'bedrock' } })
  return { ...sandbox, calls: async () => (await fixture.ledger.read(sandbox.id))?.calls }
}
const asking = (changes: object = {}) => messagesRequest({ model: MODEL, max_tokens: 50_000, ...changes })

const BETAS = 'claude-code-20250219,context-management-2025-06-27, advanced-tool-use-2025-11-20,constructor'

test('moves model, stream and versions to where InvokeModel expects them', async () => {
  const { post } = await connect()
  const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': BETAS }
  await (
    await post('/v1/messages?beta=true', asking({ stream: true, service_tier: 'auto', metadata: { user_id: 'u' } }), {
      headers,
    })
  ).text()
  const sent = bedrock.requests.at(-1)
  expect(sent?.path).toBe(`/model/${encodeURIComponent(MODEL)}/invoke-with-response-stream`)
  expect([...(sent?.query ?? [])]).toEqual([])
  const { model: _model, ...body } = asking()
  expect(JSON.parse(sent?.body.toString() ?? '')).toEqual({
    ...body,
    anthropic_version: 'bedrock-2023-05-31',
    anthropic_beta: ['context-management-2025-06-27', 'tool-search-tool-2025-10-19'],
  })
  expect(Object.keys(sent?.headers ?? {}).filter((name) => /anthropic|x-api-key/.test(name))).toEqual([])
})

test('a streamed answer consists of the events that Anthropic sends', async () => {
  const { post } = await connect()
  const answer = await post('/v1/messages', asking({ stream: true }))
  expect(answer.headers.get('content-type')).toBe('text/event-stream')
  const events = [...(await answer.text()).matchAll(/^event: (\w+)\ndata: \{"type":"(\w+)"/gm)]
  expect(events.length).toBeGreaterThan(5)
  for (const [, name, type] of events) expect(name).toBe(type)
})

test.each([
  ['throttlingException', 'rate_limit_error', 'crowded'],
  ['validationException', 'invalid_request_error', 'request'],
  ['modelStreamErrorException', 'api_error', 'request'],
])('%s in a stream is an error event of the protocol', async (type, event, failure) => {
  bedrock.endNextStream({ type, message: 'Something happened.' })
  const { post, calls } = await connect()
  const answer = await (await post('/v1/messages', asking({ stream: true }))).text()
  expect(answer).toContain(
    `event: error\ndata: {"type":"error","error":{"type":"${event}","message":"Something happened."`,
  )
  expect(await calls()).toMatchObject([{ outcome: 'cut', failure }])
})

test.each([
  [400, 'The provided model identifier is invalid.', 404, 'model'],
  [408, 'Model has timed out in processing the request.', 504, 'request'],
  [424, 'The model could not be reached.', 500, 'request'],
  [403, "You don't have access to the model with the specified model ID.", 402, 'credential'],
])('%i "%s" is relayed as %i', async (status, message, relayed, failure) => {
  bedrock.addFault({ status, message, times: failure === 'model' ? 2 : 4 })
  const { post, calls } = await connect()
  const answer = await post('/v1/messages', asking())
  expect(answer.status).toBe(relayed)
  if (relayed !== 402) expect(await answer.json()).toMatchObject({ type: 'error', error: { message } })
  expect(await calls()).toMatchObject([{ failure, message }])
  bedrock.forget()
})

test('counting tokens is refused without a request', async () => {
  const { post } = await connect()
  const before = bedrock.requests.length
  expect((await post('/v1/messages/count_tokens', asking())).status).toBe(400)
  expect(bedrock.requests).toHaveLength(before)
})

test('a large request is signed as it is sent', async () => {
  const { post } = await connect()
  const content = `hello ${'ä'.repeat(600_000)}`
  const answer = await post('/v1/messages', asking({ messages: [{ role: 'user', content }] }))
  expect(answer.status).toBe(200)
})

const HEADERS = { ':event-type': 'chunk', ':message-type': 'event' }
const chunkOf = (data: object) => encodeFrame(HEADERS, { bytes: Buffer.from(JSON.stringify(data)).toString('base64') })
const decode = (...chunks: Buffer[]) =>
  text(Readable.from(chunks).compose(decodeEventStream(wireProtocols['anthropic-messages'])))

test('frames may be cut anywhere', async () => {
  const bytes = Buffer.concat([chunkOf({ type: 'ping' }), chunkOf({ type: 'message_stop', text: 'ä\n' })])
  const whole =
    'event: ping\ndata: {"type":"ping"}\n\nevent: message_stop\ndata: {"type":"message_stop","text":"ä\\n"}\n\n'
  expect(await decode(bytes)).toBe(whole)
  expect(await decode(...[...bytes].map((byte) => Buffer.of(byte)))).toBe(whole)
  expect(await decode(encodeFrame(HEADERS, {}), bytes)).toBe(whole)
})

test.each([
  ['a wrong checksum', (frame: Buffer) => frame.fill(7, 20, 22)],
  ['a length of zero', (frame: Buffer) => frame.fill(0, 0, 4)],
  ['an absurd length', (frame: Buffer) => frame.fill(255, 0, 4)],
])('%s ends the stream', async (_, damage) => {
  await expect(decode(damage(chunkOf({ type: 'ping' })))).rejects.toThrow(/frame|checksum|length/i)
})
