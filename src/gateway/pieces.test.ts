import { expect, test } from 'vitest'
import {
  beginEvents,
  EVENTS,
  message,
  messagesRequest,
  openGatewayFixture,
  sendJson,
} from '../../test/support/gateway/gateway.ts'

test('sends a small answer in one piece with its length', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const answer = await (await fixture.sandbox()).post('/v1/messages', messagesRequest())

  const body = await answer.text()

  expect(JSON.parse(body)).toEqual(message())
  expect(answer.headers.get('content-length')).toBe(String(Buffer.byteLength(body)))
})

test('sends a provider error in one piece with its length', async () => {
  const error = { error: { type: 'invalid_request_error', message: 'grüß dich' } }
  await using fixture = await openGatewayFixture((response) => sendJson(response, error, 400))
  const answer = await (await fixture.sandbox()).post('/v1/messages', messagesRequest())
  expect([answer.status, await answer.json()]).toEqual([400, error])
  expect(answer.headers.get('content-length')).toBe(String(Buffer.byteLength(JSON.stringify(error))))
})

test('relays an answer without a body', async () => {
  await using fixture = await openGatewayFixture((response) => response.writeHead(200).end())
  const answer = await (await fixture.sandbox()).post('/v1/messages', messagesRequest())
  expect([answer.status, await answer.text()]).toEqual([200, ''])
})

test('relays all chunks of an answer', async () => {
  const text = JSON.stringify(message())
  await using fixture = await openGatewayFixture(async (response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    for (const letter of text) {
      response.write(letter)
      await new Promise((resolve) => setImmediate(resolve))
    }
    response.end()
  })
  const sandbox = await fixture.sandbox()
  expect(await (await sandbox.post('/v1/messages', messagesRequest())).text()).toBe(text)
  expect(await sandbox.totals()).toMatchObject({ costMicros: 111, costSource: 'metered' })
})

test('sends the beginning of an answer before cutting it, so that clients do not retry it as unsent', async () => {
  await using fixture = await openGatewayFixture((response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).write('{"type":', () => response.destroy())
  })
  const answer = await (await fixture.sandbox()).post('/v1/messages', messagesRequest())
  expect(answer.status).toBe(200)
  await expect(answer.text()).rejects.toThrow('terminated')
})

test('sends the head of a stream before its first chunk', async () => {
  const told = Promise.withResolvers<void>()
  await using fixture = await openGatewayFixture(async (response) => {
    beginEvents(response).flushHeaders()
    await told.promise
    response.end(EVENTS.join(''))
  })
  const answer = await (await fixture.sandbox()).post('/v1/messages', messagesRequest({ stream: true }))
  expect(answer.status).toBe(200)
  told.resolve()
  expect(await answer.text()).toBe(EVENTS.join(''))
})
