import { expect, test } from 'vitest'
import { asked, beginEvents, EVENTS, message, openBench, sendJson } from './testing/bench.ts'

test('a small answer goes out whole, with its length', async () => {
  await using bench = await openBench((response) => sendJson(response, message()))
  const answer = await (await bench.sandbox()).post('/v1/messages', asked())

  const body = await answer.text()

  expect(JSON.parse(body)).toEqual(message())
  expect(answer.headers.get('content-length')).toBe(String(Buffer.byteLength(body)))
})

test('an error of the provider goes out whole, with its length', async () => {
  const error = { error: { type: 'invalid_request_error', message: 'grüß dich' } }
  await using bench = await openBench((response) => sendJson(response, error, 400))
  const answer = await (await bench.sandbox()).post('/v1/messages', asked())
  expect([answer.status, await answer.json()]).toEqual([400, error])
  expect(answer.headers.get('content-length')).toBe(String(Buffer.byteLength(JSON.stringify(error))))
})

test('an answer without a body has none', async () => {
  await using bench = await openBench((response) => response.writeHead(200).end())
  const answer = await (await bench.sandbox()).post('/v1/messages', asked())
  expect([answer.status, await answer.text()]).toEqual([200, ''])
})

test('an answer that comes in pieces is all there', async () => {
  const text = JSON.stringify(message())
  await using bench = await openBench(async (response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    for (const letter of text) {
      response.write(letter)
      await new Promise((resolve) => setImmediate(resolve))
    }
    response.end()
  })
  const sandbox = await bench.sandbox()
  expect(await (await sandbox.post('/v1/messages', asked())).text()).toBe(text)
  expect(await sandbox.totals()).toMatchObject({ costMicros: 111, costSource: 'metered' })
})

test('an answer that breaks off breaks off after its beginning, so that nobody takes it for one that was never sent', async () => {
  await using bench = await openBench((response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).write('{"type":', () => response.destroy())
  })
  const answer = await (await bench.sandbox()).post('/v1/messages', asked())
  expect(answer.status).toBe(200)
  await expect(answer.text()).rejects.toThrow('terminated')
})

test('that a stream has begun is told before its first piece is there', async () => {
  const told = Promise.withResolvers<void>()
  await using bench = await openBench(async (response) => {
    beginEvents(response).flushHeaders()
    await told.promise
    response.end(EVENTS.join(''))
  })
  const answer = await (await bench.sandbox()).post('/v1/messages', asked({ stream: true }))
  expect(answer.status).toBe(200)
  told.resolve()
  expect(await answer.text()).toBe(EVENTS.join(''))
})
