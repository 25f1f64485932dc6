import { setImmediate as nextTick } from 'node:timers/promises'
import { expect, test } from 'vitest'
import {
  beginEvents,
  EVENTS,
  message,
  messagesRequest,
  openGatewayFixture,
  type ProviderHandler,
  sendJson,
  type UpstreamRequest,
} from '../../test/support/gateway/gateway.ts'
import { createOpenStream, NotConnected } from '../platform/outbound/open-stream.ts'
import { decideVerdict } from './verdict.ts'

// A program crashes a local model server with a request. A supervisor restarts the server after a while.

const FAILED = { state: 'failed', class: 'agent_exit', error: null } as const
const POISON = messagesRequest({ messages: [{ role: 'user', content: 'poison' }] })
const isPoison = ({ body }: UpstreamRequest): boolean => body.includes('poison')

/** The wait for the server is long, so that a slow machine changes nothing. */
const PATIENT = { triesMax: 3, totalMs: 60_000, firstMs: 1, pauseMaxMs: 5_000, quietMs: 60_000 }
const IMPATIENT = { ...PATIENT, quietMs: 30 }

/** Opens a gateway to a server that a poisoned request stops. It refuses this many connections until it is back. */
async function openFragile(refusals: number, { retry = PATIENT, die = dieSilently } = {}) {
  const openStream = createOpenStream()
  const server = { refusals: 0, crashes: 0 }
  const fixture = await openGatewayFixture(
    (response, received, place) => {
      if (!isPoison(received)) return sendJson(response, message())
      server.refusals = refusals
      server.crashes += 1
      return die(response, received, place)
    },
    {
      options: { retry },
      tools: {
        openStream: async (...request) => {
          if (server.refusals === 0) return openStream(...request)
          server.refusals -= 1
          throw new NotConnected('unreachable', new URL(request[0]), 'the connection was refused')
        },
      },
    },
  )
  return { fixture, server }
}

const dieSilently: ProviderHandler = (response) => response.destroy()

const WAYS_TO_DIE: [string, ProviderHandler][] = [
  ['closes the connection', dieSilently],
  ['answers with an error', (response) => sendJson(response, { error: 'out of memory' }, 500)],
  [
    'breaks off its answer',
    async (response) => {
      beginEvents(response).write(EVENTS[0])
      await nextTick()
      response.destroy()
    },
  ],
]

test.each(WAYS_TO_DIE)('a trial whose request stops a server, which %s, is scored in the end', async (_, die) => {
  const { fixture, server } = await openFragile(4, { die })
  await using _fixture = fixture
  for (const isAnsweredFirst of [true, false]) {
    const sandbox = await fixture.sandbox()
    if (isAnsweredFirst) await sandbox.post('/v1/messages', messagesRequest())
    const answer = await sandbox.post('/v1/messages', { ...POISON, stream: true })
    await answer.text().catch(() => {})

    const totals = await sandbox.totals()
    expect(totals.lastFailure).toMatchObject({ kind: 'interrupted', isRecovered: false })
    expect(decideVerdict(FAILED, totals)).toMatchObject({ state: 'errored', class: 'provider_error' })
    expect(decideVerdict(FAILED, totals, { isLastAttempt: true })).toMatchObject({ kind: 'judged', state: 'failed' })
    // The answer comes after the server is back, so that a program that tries again continues.
    expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(200)
    expect((await sandbox.totals()).lastFailure).toMatchObject({ isRecovered: true })
  }
  expect(server.crashes).toBeGreaterThanOrEqual(2)
})

test('calls after the crash do not make it a proven outage', async () => {
  const { fixture, server } = await openFragile(0)
  await using _fixture = fixture
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  server.refusals = PATIENT.triesMax + 2
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(502)
  expect((await sandbox.totals()).lastFailure).toMatchObject({ kind: 'interrupted' })
})

test('a server that stays down for the whole wait is an outage on every attempt', async () => {
  const { fixture } = await openFragile(Number.POSITIVE_INFINITY, { retry: IMPATIENT })
  await using _fixture = fixture
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  await sandbox.post('/v1/messages', POISON)
  const totals = await sandbox.totals()
  expect(totals.lastFailure).toMatchObject({ kind: 'upstream' })
  expect(decideVerdict(FAILED, totals, { isLastAttempt: true })).toMatchObject({
    state: 'errored',
    class: 'provider_error',
  })
})

test('an outage that concurrent calls meet is an outage on every attempt', async () => {
  await using fixture = await openGatewayFixture((response) => sendJson(response, { error: 'overloaded' }, 503), {
    options: { retry: { ...IMPATIENT, quietMs: 300 } },
  })
  const sandbox = await fixture.sandbox()
  await Promise.all([1, 2].map(() => sandbox.post('/v1/messages', messagesRequest())))
  const calls = (await fixture.ledger.read(sandbox.id))?.calls ?? []
  expect(calls.map(({ failure }) => failure)).toEqual(['upstream', 'upstream'])
})

test('a server that was down before the first request of a trial is an outage without a wait', async () => {
  const { fixture, server } = await openFragile(0)
  await using _fixture = fixture
  server.refusals = PATIENT.triesMax
  const sandbox = await fixture.sandbox()
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(502)
  const totals = await sandbox.totals()
  expect(totals.lastFailure).toMatchObject({ kind: 'upstream' })
  expect(fixture.received).toEqual([])
  expect(decideVerdict(FAILED, totals, { isLastAttempt: true })).toMatchObject({
    state: 'errored',
    class: 'provider_error',
  })
})

test('a trial that stops the server again and again during the wait is scored in the end', async () => {
  await using fixture = await openGatewayFixture(
    (response, _, place) => (place === 0 ? sendJson(response, message()) : response.destroy()),
    { options: { retry: { ...PATIENT, quietMs: 3_000 } } },
  )
  const sandbox = await fixture.sandbox()
  await sandbox.post('/v1/messages', messagesRequest())
  const first = sandbox.post('/v1/messages', POISON)
  await expect.poll(() => fixture.received.length).toBeGreaterThan(2)
  const leave = new AbortController()
  const second = sandbox.post('/v1/messages', POISON, { signal: leave.signal })
  await expect.poll(() => fixture.received.filter(isPoison).length).toBe(2)
  leave.abort()
  await expect(second).rejects.toThrow()
  expect((await first).status).toBe(502)
  const totals = await sandbox.totals()
  expect(totals.lastFailure).toMatchObject({ kind: 'interrupted' })
  expect(decideVerdict(FAILED, totals, { isLastAttempt: true })).toMatchObject({ kind: 'judged', state: 'failed' })
})
