import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import {
  beginEvents,
  EVENTS,
  message,
  messagesRequest,
  openGatewayFixture,
  type SandboxClient,
  sendJson,
} from '../../test/support/gateway/gateway.ts'

const BUDGET_MICROS = 100_000

/** Sends a call and leaves when the provider has received it. Returns the status if the gateway refuses it. */
async function abandon(
  sandbox: SandboxClient,
  request: object,
  hasArrived: () => boolean,
): Promise<number | undefined> {
  const leave = new AbortController()
  const answer = sandbox.post('/v1/messages', request, { signal: leave.signal }).then(
    ({ status }) => (status === 200 ? undefined : status),
    () => undefined,
  )
  const refusal = await Promise.race([
    answer,
    expect
      .poll(hasArrived, { interval: 1 })
      .toBe(true)
      .then(() => undefined),
  ])
  leave.abort()
  return refusal
}

test.each([
  ['without streaming', false],
  ['with streaming', true],
])(
  'a program that abandons its calls %s does not exceed its budget at a provider that completes them',
  async (_, stream) => {
    // Answers only the small requests of the gateway itself, and no other one ever ends.
    await using fixture = await openGatewayFixture(
      (response, { body }) => {
        if (!body.includes('"max_tokens":777')) return sendJson(response, message())
        if (stream) beginEvents(response).write(EVENTS[0])
      },
      { options: { drainMs: 5 } },
    )
    const sandbox = await fixture.sandbox({ budgetMicros: BUDGET_MICROS })
    const request = messagesRequest({ max_tokens: 777, stream })
    const countSent = () => fixture.received.filter(({ body }) => body.includes('"max_tokens":777')).length
    let refusal: number | undefined
    for (let sent = 1; refusal === undefined && sent <= 200; sent++) {
      refusal = await abandon(sandbox, request, () => countSent() >= sent)
      await expect.poll(async () => (await sandbox.totals()).calls.open).toBe(0)
    }
    expect(refusal).toBe(402)
    // Each call may have cost 777 output tokens. The first 16 are believed to have been canceled.
    expect((countSent() - 17) * 777 * 15).toBeLessThanOrEqual(BUDGET_MICROS)
    expect(await sandbox.totals()).toMatchObject({ costSource: 'estimated' })
  },
)

test('a program that abandons a few calls pays what the provider had produced', async () => {
  await using fixture = await openGatewayFixture(() => {}, { options: { drainMs: 5 } })
  const sandbox = await fixture.sandbox({ budgetMicros: BUDGET_MICROS })
  for (let sent = 1; sent <= 16; sent++) {
    await abandon(sandbox, messagesRequest({ max_tokens: 777 }), () => fixture.received.length >= sent)
    await expect.poll(async () => (await sandbox.totals()).calls.open).toBe(0)
  }
  expect((await sandbox.totals()).costMicros).toBeLessThan(777 * 15)
})

test('a program that closes only its half of the connection has left, too', async () => {
  await using fixture = await openGatewayFixture((response) => void beginEvents(response).write(EVENTS[0]), {
    options: { drainMs: 5 },
  })
  const sandbox = await fixture.sandbox()
  const { hostname, port } = new URL(sandbox.url)
  const body = JSON.stringify(messagesRequest({ stream: true }))
  const head = `POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: ${sandbox.token}\r\nContent-Length: ${body.length}`
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  socket.write(`${head}\r\n\r\n${body}`)
  await once(socket, 'readable')
  socket.end()
  await text(socket).catch(() => '')

  await expect.poll(async () => (await sandbox.totals()).calls.open).toBe(0)
  const [call] = (await fixture.ledger.read(sandbox.id))?.calls ?? []
  expect(call).toMatchObject({ outcome: 'cut', clientLeft: true })
})
