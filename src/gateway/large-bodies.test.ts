import { expect, test } from 'vitest'
import { watchLoop } from '../../test/support/loop-delay.ts'
import { asked, message, openBench, sendJson, TERMS } from './testing/bench.ts'

const withContent = (content: string): Buffer => Buffer.from(JSON.stringify(asked()).replace('"hello"', () => content))
const nested = (depth: number): Buffer => withContent(`${'['.repeat(depth)}${']'.repeat(depth)}`)

test.each<[string, Buffer, number]>([
  ['text', withContent(`"${'a\\n\\"x'.repeat(2_000_000)}"`), 200],
  ['letters of several bytes', withContent(`"${'é漢'.repeat(3_000_000)}"`), 200],
  ['small values', withContent(`[${'{"a":1},'.repeat(450_000)}1]`), 200],
  ['too many values', withContent(`[${'[],'.repeat(4_000_000)}1]`), 400],
  ['too deep a value', nested(5_000_000), 400],
])('a large request of %s does not block other calls', async (_, body, status) => {
  await using bench = await openBench((response) => sendJson(response, message()))
  const sandbox = await bench.sandbox()
  await sandbox.post('/v1/messages', withContent(`"${'a'.repeat(300_000)}"`)) // starts the thread
  const loop = watchLoop()
  const answer = await sandbox.post('/v1/messages', body)
  expect(loop.percentile(0.99), 'milliseconds for which the event loop was blocked (p99)').toBeLessThanOrEqual(100)
  expect(answer.status).toBe(status)
})

test('a large request for a helper is sent on in the name of the trial’s model', async () => {
  await using bench = await openBench((response) => sendJson(response, message()))
  const sandbox = await bench.sandbox({ terms: { ...TERMS, helpers: [{ name: 'small-*', rule: 'pin' }] } })
  const text = 'a'.repeat(300_000)
  const body = asked({ model: 'small-1', messages: [{ role: 'user', content: text }] })
  expect((await sandbox.post('/v1/messages', body)).status).toBe(200)
  expect(JSON.parse(String(bench.arrived[0]?.body))).toEqual({ ...body, model: 'large-1' })
})

test('the usage of a large answer is read', async () => {
  const answer = { ...message(), content: [{ type: 'text', text: 'a'.repeat(400_000) }] }
  await using bench = await openBench((response) => sendJson(response, answer))
  const sandbox = await bench.sandbox()
  expect(await (await sandbox.post('/v1/messages', asked())).json()).toEqual(answer)
  expect(await sandbox.totals()).toMatchObject({ costSource: 'metered', calls: { succeeded: 1 } })
})

test.each([
  [400, 200],
  [501, 400],
  [9_000, 400],
])('a request that is nested %d deep is answered with %d, and the next one as ever', async (depth, status) => {
  await using bench = await openBench((response) => sendJson(response, message()))
  const sandbox = await bench.sandbox({ terms: { ...TERMS, helpers: [{ name: 'small-*', rule: 'pin' }] } })
  const body = nested(depth).toString().replace('large-1', 'small-1')
  expect((await sandbox.post('/v1/messages', body)).status).toBe(status)
  expect((await sandbox.post('/v1/messages', asked())).status).toBe(200)
})
