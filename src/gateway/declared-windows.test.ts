import { expect, test } from 'vitest'
import { message, messagesRequest, openGatewayFixture, sendJson, TERMS } from '../../test/support/gateway/gateway.ts'

// A provider may read more than the context window that is known for its model, and bills what it has read.

const DECLARED = { ...TERMS, contextTokens: 128_000, isContextDeclared: true }
const LONG = messagesRequest({ messages: [{ role: 'user', content: 'a '.repeat(375_000) }] })
const BILLED = message({ usage: { input_tokens: 375_022, output_tokens: 5 } })

test('a request that may cost more than the trial budget beyond a declared window is not sent', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, BILLED))
  const sandbox = await fixture.sandbox({ budgetMicros: 500_000, terms: DECLARED })
  expect((await sandbox.post('/v1/messages', LONG)).status).toBe(402)
  expect(fixture.received).toEqual([])
})

test('a request beyond a declared window is reserved by its bytes and recorded as the provider bills it', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, BILLED))
  const sandbox = await fixture.sandbox({ budgetMicros: 5_000_000, terms: DECLARED })
  for (let count = 0; count < 2; count++) expect((await sandbox.post('/v1/messages', LONG)).status).toBe(200)
  const [call] = (await fixture.ledger.read(sandbox.id))?.calls ?? []
  expect(call?.reservedMicros).toBeGreaterThan(750_000 * 3.75)
  expect(call).toMatchObject({ costSource: 'metered', costMicros: 375_022 * 3 + 5 * 15 })
})

test('a text of four bytes per token that fills a declared window passes', async () => {
  const usage = { input_tokens: 127_000, output_tokens: 5 }
  await using fixture = await openGatewayFixture((response) => sendJson(response, message({ usage })))
  const sandbox = await fixture.sandbox({ budgetMicros: 2_000_000, terms: DECLARED })
  const text = messagesRequest({ messages: [{ role: 'user', content: 'abc '.repeat(127_000) }] })
  expect((await sandbox.post('/v1/messages', text)).status).toBe(200)
  expect(await sandbox.totals()).toMatchObject({ costSource: 'metered', costMicros: 127_000 * 3 + 5 * 15 })
})

test('an encoded picture is not reserved as text', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
  const sandbox = await fixture.sandbox({ budgetMicros: 100_000, terms: DECLARED })
  const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'A'.repeat(1_400_000) } }
  const body = messagesRequest({ messages: [{ role: 'user', content: [picture] }] })
  expect((await sandbox.post('/v1/messages', body)).status).toBe(200)
})

test.each([
  ['a whole answer', (response: Parameters<typeof sendJson>[0]) => sendJson(response, BILLED)],
  [
    'a cut stream',
    (response: Parameters<typeof sendJson>[0]) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify({ type: 'message_start', message: BILLED })}\n\n`, () =>
        response.destroy(),
      )
    },
  ],
])('usage of %s beyond a published window is recorded in full and closes the grant', async (_, answer) => {
  await using fixture = await openGatewayFixture((response, { body }) =>
    body.length > 1000 ? answer(response) : sendJson(response, message()),
  )
  const sandbox = await fixture.sandbox({ budgetMicros: 5_000_000, terms: { ...TERMS, contextTokens: 128_000 } })
  await (await sandbox.post('/v1/messages', LONG)).text().catch(() => '')
  const { costMicros } = await sandbox.totals()
  expect(costMicros).toBeGreaterThanOrEqual(375_022 * 3)
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(402)
  expect((await sandbox.totals()).refusals).toEqual({ closed: 1 })
})
