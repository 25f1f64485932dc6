import { describe, expect, test } from 'vitest'
import {
  beginEvents,
  EVENTS,
  message,
  messagesRequest,
  openGatewayFixture,
  sendJson,
} from '../../test/support/gateway/gateway.ts'
import type { Protocol } from '../harnesses/model-access.ts'
import { wireProtocols } from './protocols.ts'
import { openUsageTap } from './usage-tap.ts'
import { decideVerdict } from './verdict.ts'

// Streams that are made to be expensive to read. All calls share one event loop.

const MIB = 1024 * 1024
const CHUNK_BYTES = 64 * 1024
const STREAM = messagesRequest({ stream: true })
const FAILED = { state: 'failed', class: 'agent_exit', error: null } as const

const ORDINARY = `data: ${JSON.stringify({
  id: 'chatcmpl-0123456789',
  object: 'chat.completion.chunk',
  created: 1_800_000_000,
  model: 'large-1',
  choices: [{ index: 0, delta: { role: 'assistant', content: ' word' }, logprobs: null, finish_reason: null }],
})}\n\n`

const repeatTo = (text: string, bytes: number): Buffer => Buffer.from(text.repeat(Math.ceil(bytes / text.length)))

/** CPU time that reading a stream takes, in milliseconds per MiB. The least of three runs. */
function cpuPerMib(protocol: Protocol, stream: Buffer): number {
  const runs = [0, 1, 2].map(() => {
    const ear = openUsageTap(wireProtocols[protocol], { 'content-type': 'text/event-stream' })
    const before = process.cpuUsage()
    for (let at = 0; at < stream.length; at += CHUNK_BYTES) ear.push(stream.subarray(at, at + CHUNK_BYTES))
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000 / (stream.length / MIB)
  })
  return Math.min(...runs)
}

describe.each<Protocol>(['anthropic-messages', 'openai-chat'])('reading %s', (protocol) => {
  const ordinary = cpuPerMib(protocol, repeatTo(ORDINARY, MIB))

  test.each<[string, Buffer]>([
    ['empty events', repeatTo('data:\n\n', MIB)],
    ['empty lines', repeatTo('\n', MIB)],
    ['empty lines of data', repeatTo('data:\n', MIB)],
    ['carriage returns', repeatTo('\r', MIB)],
    ['events that are not JSON', repeatTo('data:x\n\n', MIB)],
    ['events that are half JSON', repeatTo('data:{\n\n', MIB)],
    ['events without members', repeatTo('data:{}\n\n', MIB)],
    ['a nested event of 6 MB', Buffer.from(`data: {"choices":${'['.repeat(3e6)}${']'.repeat(3e6)}}\n\n`)],
    ['a flat event of 3 MB', Buffer.from(`data: {"choices":[${'{},'.repeat(1e6)}{}]}\n\n`)],
    ['a line without end', Buffer.from(`data: ${'x'.repeat(6 * MIB)}`)],
  ])('%s costs at most ten times as much as ordinary events', (_, stream) => {
    expect(cpuPerMib(protocol, stream) / ordinary).toBeLessThan(10)
  })
})

test.each<[string, string]>([
  ['events', 'data:{}\n\n'],
  ['events that are not JSON', 'data:{\n\n'],
])('an answer with endless %s is cut as the provider’s fault', async (_, event) => {
  await using fixture = await openGatewayFixture(
    (response, arrived) => {
      if (!arrived.body.includes('"stream":true')) return sendJson(response, message())
      beginEvents(response)
      const more = () => {
        while (!response.destroyed && response.write(event.repeat(1000)));
      }
      response.on('drain', more)
      more()
    },
    { options: { answerEvents: 5000 } },
  )
  const sandbox = await fixture.sandbox({ budgetMicros: 1_000_000 })

  await expect((await sandbox.post('/v1/messages', STREAM)).text()).rejects.toThrow()

  const totals = await sandbox.totals()
  expect(totals).toMatchObject({ calls: { cut: 1 }, costSource: 'estimated', lastFailure: { kind: 'upstream' } })
  expect(decideVerdict(FAILED, totals)).toMatchObject({ state: 'errored', class: 'provider_error' })
})

test.each<[string, string]>([
  ['thousands of empty events', 'data:\n\n'.repeat(20_000)],
  ['some events that are not JSON', 'data: not JSON\n\n'.repeat(100)],
  ['an event that is nested too deeply', `data: {"a":${'['.repeat(40_000)}${']'.repeat(40_000)}}\n\n`],
])('a stream with %s is still metered', async (_, noise) => {
  await using fixture = await openGatewayFixture((response) => beginEvents(response).end(noise + EVENTS.join('')))
  const sandbox = await fixture.sandbox()
  expect(await (await sandbox.post('/v1/messages', STREAM)).text()).toBe(noise + EVENTS.join(''))
  expect(await sandbox.totals()).toMatchObject({ calls: { succeeded: 1 }, costMicros: 111, costSource: 'metered' })
})
