import { expect, test } from 'vitest'
import {
  beginEvents,
  EVENTS,
  message,
  messagesRequest,
  openGatewayFixture,
  sendJson,
} from '../../test/support/gateway/gateway.ts'
import { addToBacklog, weighChunk } from './answer-pace.ts'

const RATE = { answerBytesPerSecond: 1000, answerBurstBytes: 500 }

test.each([
  ['the first bytes', undefined, { bytes: 400, at: 0 }, { bytes: 400, at: 0 }],
  ['bytes at once', { bytes: 400, at: 0 }, { bytes: 400, at: 0 }, { bytes: 800, at: 0 }],
  ['bytes after a while', { bytes: 400, at: 0 }, { bytes: 400, at: 300 }, { bytes: 500, at: 300 }],
  ['bytes after a long time', { bytes: 400, at: 0 }, { bytes: 700, at: 60_000 }, { bytes: 700, at: 60_000 }],
] as const)('%s leave a backlog that shrinks at the rate', (_, last, next, backlog) => {
  expect(addToBacklog(last, next, RATE)).toEqual(backlog)
})

test.each([
  ['nothing but text', 'a'.repeat(1000), 1000],
  ['an ordinary event', `data: ${'a'.repeat(300)}\n\n`, 512],
  ['a single byte', 'a', 256],
  ['tiny events', 'data: {}\n\n'.repeat(100), 256 + 200 * 128],
  ['empty lines', '\r\n'.repeat(100), 256 + 200 * 128],
])('a chunk with %s counts what reading it takes', (_, chunk, bytes) => {
  expect(weighChunk(Buffer.from(chunk))).toBe(bytes)
})

const NOISE = 'data: {}\n\n'.repeat(50_000)

test('a provider that floods one workspace is read slowly, and calls of others are not delayed', async () => {
  await using fixture = await openGatewayFixture(
    (response, { body }) =>
      body.includes('"stream":true')
        ? beginEvents(response).end(EVENTS[0] + NOISE + EVENTS.slice(1).join(''))
        : sendJson(response, message()),
    { options: { answerBytesPerSecond: 1, answerBurstBytes: 4 * 1024 * 1024, drainMs: 10 } },
  )
  const [flooded, other] = [await fixture.sandbox(), await fixture.sandbox()]
  const leave = new AbortController()
  const answer = await flooded.post('/v1/messages', messagesRequest({ stream: true }), { signal: leave.signal })
  const reader = answer.body?.getReader()
  let bytes = 0
  const read = (async () => {
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) bytes += part.value.length
  })()
  await expect.poll(() => bytes).toBeGreaterThan(0)
  for (let call = 0; call < 20; call++) expect((await other.post('/v1/messages', messagesRequest())).status).toBe(200)
  expect(bytes).toBeLessThan(NOISE.length)
  leave.abort()
  await expect(read).rejects.toThrow()
})
