import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { createLog } from '../platform/log.ts'
import { closeGrant } from './grants.ts'
import { type Arrived, asked, beginEvents, EVENTS, KEY, message, openBench, sendJson, TERMS } from './testing/bench.ts'

const STREAM = asked({ stream: true })

/** And not a request of the gateway's own. */
const isAsked = ({ body }: Arrived): boolean => body.includes('hello')

test.each([429, 500, 502, 503, 504, 529])(
  'a %i that passes is not seen by the program, and billed once',
  async (status) => {
    await using bench = await openBench((response, _, place) =>
      place < 2 ? sendJson(response, { error: 'later' }, status) : sendJson(response, message()),
    )
    const sandbox = await bench.sandbox({ budgetMicros: 4000 }) // room for one reservation only

    const answer = await sandbox.post('/v1/messages', asked())

    expect(answer.status).toBe(200)
    expect(bench.arrived).toHaveLength(3)
    expect(new Set(bench.arrived.map(({ body }) => String(body))).size).toBe(1)
    const state = await bench.ledger.read(sandbox.id)
    expect(state?.calls).toMatchObject([{ tries: 3, status: 200, costMicros: 111, costSource: 'metered' }])
    expect(await bench.metrics()).toContain(`assay_gateway_retries_total{why="${status}"} 2`)
  },
)

test('one that does not pass is the program’s own to see, in the provider’s words, and costs nothing', async () => {
  await using bench = await openBench((response) =>
    response
      .writeHead(429, { 'content-type': 'application/json', 'retry-after': '0', 'anthropic-organization-id': 'org-1' })
      .end('{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'),
  )
  const sandbox = await bench.sandbox()

  const answer = await sandbox.post('/v1/messages', asked())

  expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '0'])
  expect(answer.headers.get('anthropic-organization-id')).toBeNull()
  expect(await answer.json()).toMatchObject({ error: { message: 'slow down' } })
  expect(bench.arrived.filter(isAsked)).toHaveLength(4)
  expect(await sandbox.totals()).toMatchObject({
    costMicros: 0,
    costSource: 'metered',
    calls: { failed: 1 },
    lastFailure: { status: 429, kind: 'rate' },
  })
})

test('who asks for a longer pause than is allowed is not asked again', async () => {
  await using bench = await openBench((response) => response.writeHead(503, { 'retry-after': '3600' }).end())
  const sandbox = await bench.sandbox()
  expect((await sandbox.post('/v1/messages', asked())).status).toBe(503)
  expect(bench.arrived.filter(isAsked)).toHaveLength(1)
})

test.each<[number, object]>([
  [401, { error: { message: `Incorrect API key provided: ${KEY}` } }],
  [402, {}],
  [403, {}],
  [400, { error: { message: 'Your credit balance is too low to access the API.' } }],
  [400, { error: { status: 'INVALID_ARGUMENT', details: [{ reason: 'API_KEY_INVALID' }] } }],
])('a provider that refuses the key with %i %j ends the program with 402, without its words', async (status, body) => {
  await using bench = await openBench((response) => sendJson(response, body, status))
  const sandbox = await bench.sandbox()

  const answer = await sandbox.post('/v1/messages', asked())

  expect(answer.status).toBe(402)
  expect(await answer.text()).not.toContain(KEY)
  expect(await sandbox.totals()).toMatchObject({ costMicros: 0, lastFailure: { status, kind: 'credential' } })
})

test('a model that the provider does not have is told as such', async () => {
  await using bench = await openBench((response) => sendJson(response, { error: 'no such model' }, 404))
  const sandbox = await bench.sandbox()
  expect((await sandbox.post('/v1/messages', asked())).status).toBe(404)
  expect((await sandbox.totals()).lastFailure).toMatchObject({ status: 404, kind: 'model' })
})

test('a redirect is not followed: it would take the key somewhere else', async () => {
  await using elsewhere = await openBench((response) => sendJson(response, message()))
  const location = `http://127.0.0.1:${elsewhere.provider.port}/`
  await using bench = await openBench((response) => response.writeHead(307, { location }).end())
  const sandbox = await bench.sandbox()
  expect((await sandbox.post('/v1/messages', asked())).status).toBe(502)
  expect(bench.arrived.filter(isAsked)).toHaveLength(1)
  expect(elsewhere.arrived).toEqual([])
})

test('a credential that is gone ends the program before anything is sent', async () => {
  await using bench = await openBench((response) => sendJson(response, message()), {
    tools: { openKey: async () => undefined },
  })
  const sandbox = await bench.sandbox()
  expect((await sandbox.post('/v1/messages', asked())).status).toBe(402)
  expect(await sandbox.totals()).toMatchObject({ lastFailure: { kind: 'credential' }, calls: { failed: 0 } })
})

test('a provider that is not there is asked again; what never arrived costs nothing', async () => {
  await using bench = await openBench(() => {}, {
    tools: { findUpstream: () => ({ url: 'http://127.0.0.1:9', trust: 'operator' }) },
  })
  const sandbox = await bench.sandbox()

  expect((await sandbox.post('/v1/messages', asked())).status).toBe(502)

  const state = await bench.ledger.read(sandbox.id)
  expect(state?.calls).toMatchObject([{ tries: 4, status: null, failure: 'upstream', costMicros: 0 }])
})

test('an address that a workspace gave must be public', async () => {
  await using bench = await openBench((response) => sendJson(response, message()), {
    tools: { findUpstream: ({ baseUrl }) => ({ url: baseUrl ?? '', trust: 'client' }) },
  })
  for (const baseUrl of [
    `http://127.0.0.1:${bench.provider.port}`,
    'https://169.254.169.254',
    'https://localhost:8443',
  ]) {
    const sandbox = await bench.sandbox({ terms: { ...TERMS, baseUrl } })
    expect((await sandbox.post('/v1/messages', asked())).status).toBe(502)
    expect((await bench.ledger.read(sandbox.id))?.calls).toMatchObject([{ tries: 1, costMicros: 0 }])
  }
  expect(bench.provider.connections).toEqual([])
})

test('a provider that breaks off before it answers is not asked again: it may have done the work', async () => {
  await using bench = await openBench((response) => response.destroy())
  const sandbox = await bench.sandbox()

  expect((await sandbox.post('/v1/messages', asked())).status).toBe(502)

  expect(bench.arrived.filter(isAsked)).toHaveLength(1)
  const { costMicros, costSource } = await sandbox.totals()
  expect(costSource).toBe('estimated')
  expect(costMicros).toBeGreaterThan(0)
})

test('a provider that never answers is a 504', async () => {
  await using bench = await openBench(() => {}, { options: { headersMs: 100 } })
  const sandbox = await bench.sandbox()

  const answer = await sandbox.post('/v1/messages', asked())

  expect(answer.status).toBe(504)
  expect(await answer.json()).toMatchObject({ type: 'error', error: { type: 'timeout_error' } })
  expect(await sandbox.totals()).toMatchObject({ costSource: 'estimated', lastFailure: { kind: 'upstream' } })
})

test.each<[string, string, Partial<{ idleMs: number }>]>([
  ['is cut in the middle', 'cut', {}],
  ['falls silent', 'silent', { idleMs: 100 }],
])('a stream that %s breaks off for the program too, and is estimated', async (_, how, options) => {
  await using bench = await openBench(
    (response) => {
      beginEvents(response).write(EVENTS.slice(0, 3).join(''))
      if (how === 'cut') setImmediate(() => response.destroy())
    },
    { options },
  )
  const sandbox = await bench.sandbox({ budgetMicros: 1_000_000 })

  const answer = await sandbox.post('/v1/messages', STREAM)

  expect(answer.status).toBe(200)
  await expect(answer.text()).rejects.toThrow()
  const [call] = (await bench.ledger.read(sandbox.id))?.calls ?? []
  expect(call).toMatchObject({
    outcome: 'cut',
    failure: 'upstream',
    costSource: 'estimated',
    servedModel: 'large-1-2026',
  })
  expect(call?.costMicros).toBeGreaterThan(0)
  expect(call?.costMicros).toBeLessThanOrEqual(call?.reservedMicros ?? 0)
})

test.each<[string, string]>([
  ['ends without its end', EVENTS.slice(0, 4).join('').replaceAll('message_delta', 'message_gamma')],
  ['is none', 'Internal Server Error\n\n'],
  ['is half JSON', 'data: {"type":"message_delta","usage":{"output_tokens":5}\n\ndata: [DONE\n\n'],
  ['has a usage that cannot be', `data: {"type":"message_delta","usage":{"output_tokens":-5}}\n\n`],
  ['is empty', ''],
])('a stream that %s passes as it is, and is estimated', async (_, body) => {
  await using bench = await openBench((response) => beginEvents(response).end(body))
  const sandbox = await bench.sandbox()

  const answer = await sandbox.post('/v1/messages', STREAM)

  expect(await answer.text()).toBe(body)
  expect(await sandbox.totals()).toMatchObject({ costSource: 'estimated', calls: { cut: 1 } })
})

test('a client that leaves in the middle does not hide what it cost', async () => {
  const left = Promise.withResolvers<void>()
  await using bench = await openBench(async (response) => {
    beginEvents(response).write(EVENTS[0])
    const pings = setInterval(() => response.write(': ping\n\n'), 5)
    await left.promise
    clearInterval(pings)
    response.end(EVENTS.slice(1).join(''))
  })
  const sandbox = await bench.sandbox()
  const leave = new AbortController()

  const answer = await sandbox.post('/v1/messages', STREAM, { signal: leave.signal })
  await answer.body?.getReader().read()
  leave.abort()
  await expect.poll(() => bench.gateway.tunnels()).toBe(0)
  left.resolve()
  const totals = await closeGrant(bench.ledger, sandbox.id)

  expect(totals).toMatchObject({ costMicros: 111, costSource: 'metered', calls: { succeeded: 1 } })
  expect((await bench.ledger.read(sandbox.id))?.calls).toMatchObject([{ clientLeft: true }])
})

test('nobody waits for ever for the end of what nobody reads', async () => {
  await using bench = await openBench((response) => beginEvents(response).write(EVENTS[0]), {
    options: { drainMs: 50 },
  })
  const sandbox = await bench.sandbox()
  const leave = new AbortController()

  const answer = await sandbox.post('/v1/messages', STREAM, { signal: leave.signal })
  await answer.body?.getReader().read()
  leave.abort()

  await expect.poll(async () => (await sandbox.totals()).calls).toMatchObject({ cut: 1, open: 0 })
})

test('a client that reads nothing holds up the provider, not the memory', async () => {
  let sent = 0
  await using bench = await openBench(
    (response) => {
      beginEvents(response)
      const more = () => {
        do sent += 65_536
        while (response.write(`: ${'x'.repeat(65_532)}\n\n`))
      }
      response.on('drain', more)
      more()
    },
    { options: { idleMs: 300, drainBytes: 1024 } },
  )
  const sandbox = await bench.sandbox()

  const answer = await sandbox.post('/v1/messages', STREAM)
  await expect.poll(async () => (await sandbox.totals()).calls).toMatchObject({ cut: 1 })

  expect(answer.status).toBe(200)
  expect(sent).toBeLessThan(64 * 1024 * 1024)
  await answer.body?.cancel().catch(() => {})
})

test('an answer that the provider packed all the same is unpacked and metered', async () => {
  await using bench = await openBench((response) =>
    response
      .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
      .end(gzipSync(JSON.stringify(message()))),
  )
  const sandbox = await bench.sandbox()
  const answer = await sandbox.post('/v1/messages', asked())
  expect(await answer.json()).toEqual(message())
  expect((await sandbox.totals()).costMicros).toBe(111)
})

test('a stop lets calls end; those that do not are broken off and settled', async () => {
  const go = Promise.withResolvers<void>()
  await using bench = await openBench(async (response, _, place) => {
    beginEvents(response).write(EVENTS[0])
    if (place === 1) return
    await go.promise
    response.end(EVENTS.slice(1).join(''))
  })
  const [ends, hangs] = [await bench.sandbox(), await bench.sandbox()]
  const one = await ends.post('/v1/messages', STREAM)
  const other = await hangs.post('/v1/messages', STREAM)

  const stopping = bench.gateway.stop(500)
  const late = await ends.post('/v1/messages', asked()).catch(() => undefined)
  go.resolve()

  expect(await one.text()).toBe(EVENTS.join(''))
  await expect(other.text()).rejects.toThrow()
  await stopping
  expect([undefined, 503]).toContain(late?.status) // there may be no connection left
  expect(await ends.totals()).toMatchObject({ costSource: 'metered', calls: { succeeded: 1 } })
  expect(await hangs.totals()).toMatchObject({ costSource: 'estimated', calls: { cut: 1, open: 0 } })
})

test('a ledger that is away refuses the call; nothing is sent that could not be written down', async () => {
  const lines: string[] = []
  await using bench = await openBench((response) => sendJson(response, message()), {
    log: createLog('warn', (line) => lines.push(line)),
  })
  const sandbox = await bench.sandbox()
  bench.ledger.reserve = () => Promise.reject(new Error('the database is away'))

  const answer = await sandbox.post('/v1/messages', asked())

  expect(answer.status).toBe(500)
  expect(bench.arrived).toEqual([])
  expect(lines.join('')).toContain('the database is away')
  expect(lines.join('')).not.toContain(sandbox.token)
})

test('thousands of calls at once stay within the budget, to the micro-dollar', async () => {
  await using bench = await openBench((response) => sendJson(response, message()), {
    options: { callsAtOnce: 5000, tunnelsAtOnce: 5000 },
  })
  const sandbox = await bench.sandbox({ budgetMicros: 100_000, callsMax: 5000 })

  const answers: number[] = []
  const one = async () => {
    const answer = await sandbox.post('/v1/messages', asked())
    await answer.arrayBuffer()
    answers.push(answer.status)
  }
  // More connections at the same instant than this are lost in the queues of the kernel, before they come to us.
  for (let wave = 0; wave < 8; wave++) await Promise.all(Array.from({ length: 250 }, one))

  const totals = await sandbox.totals()
  const made = answers.filter((status) => status === 200).length
  expect(made).toBe(bench.arrived.length)
  expect(totals).toMatchObject({ costMicros: made * 111, costSource: 'metered', calls: { succeeded: made, open: 0 } })
  expect(totals.costMicros).toBeLessThanOrEqual(100_000)
  expect(new Set(answers)).toEqual(new Set([200, 402]))
})
