import { expect, test } from 'vitest'
import { message, messagesRequest, openGatewayFixture, sendJson, TERMS } from '../../test/support/gateway/gateway.ts'
import { watchLoop } from '../../test/support/loop-delay.ts'

const withContent = (content: string): Buffer =>
  Buffer.from(JSON.stringify(messagesRequest()).replace('"hello"', () => content))
const nested = (depth: number): Buffer => withContent(`${'['.repeat(depth)}${']'.repeat(depth)}`)

test.each<[string, Buffer, number]>([
  ['text', withContent(`"${'a\\n\\"x'.repeat(2_000_000)}"`), 200],
  ['letters of several bytes', withContent(`"${'é漢'.repeat(3_000_000)}"`), 200],
  ['small values', withContent(`[${'{"a":1},'.repeat(450_000)}1]`), 200],
  ['too many values', withContent(`[${'[],'.repeat(4_000_000)}1]`), 400],
  ['too deep a value', nested(5_000_000), 400],
])('a large request of %s does not block other calls', async (_, body, status) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', withContent(`"${'a'.repeat(300_000)}"`)) // starts the thread
  const loop = watchLoop()
  const answer = await sandbox.post('/v1/messages', body)
  expect(loop.percentile(0.99), 'milliseconds for which the event loop was blocked (p99)').toBeLessThanOrEqual(100)
  expect(answer.status).toBe(status)
})

test('maps the auxiliary model in a large request', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox({ terms: { ...TERMS, helpers: [{ name: 'small-*', rule: 'pin' }] } })
  const text = 'a'.repeat(300_000)
  const body = messagesRequest({ model: 'small-1', messages: [{ role: 'user', content: text }] })
  expect((await sandbox.post('/v1/messages', body)).status).toBe(200)
  expect(JSON.parse(String(fixture.received[0]?.body))).toEqual({ ...body, model: 'large-1' })
})

test('the usage of a large answer is read', async () => {
  const answer = { ...message(), content: [{ type: 'text', text: 'a'.repeat(400_000) }] }
  await using fixture = await openGatewayFixture((response) => sendJson(response, answer))
  const sandbox = await fixture.sandbox()
  expect(await (await sandbox.post('/v1/messages', messagesRequest())).json()).toEqual(answer)
  expect(await sandbox.totals()).toMatchObject({ costSource: 'metered', calls: { succeeded: 1 } })
})

test.each([
  [400, 200],
  [501, 400],
  [9_000, 400],
])('a request nested %d levels deep is answered with %d, and the next one normally', async (depth, status) => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox({ terms: { ...TERMS, helpers: [{ name: 'small-*', rule: 'pin' }] } })
  const body = nested(depth).toString().replace('large-1', 'small-1')
  expect((await sandbox.post('/v1/messages', body)).status).toBe(status)
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(200)
})
