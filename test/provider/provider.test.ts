import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import { createInterface } from 'node:readline'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { wireProtocols } from '../../src/gateway/protocols.ts'
import type { MeteredAnswer } from '../../src/gateway/wire-protocol.ts'
import type { JsonObject } from '../../src/harnesses/json.ts'
import { PROTOCOLS, type Protocol } from '../../src/harnesses/model-access.ts'
import {
  buildProviderRequest,
  type ProviderRequest,
  startTestProvider,
  type TestProvider,
} from '../support/provider.ts'

const USAGE = { input: 700, cacheRead: 300, cacheWrite5m: 60, cacheWrite1h: 40, output: 50, reasoning: 20 }
const SCRIPT = {
  tasks: [
    { match: 'easy', turns: [{ say: 'I try.', run: 'echo hello > hello.txt', usage: USAGE }, { say: 'It is done.' }] },
    { match: 'for ever', turns: [{ run: 'true' }], endless: true },
    { match: 'hard', level: 'high', turns: [{ say: 'Solved.' }] },
    { match: 'hard', turns: [{ say: 'I give up.' }] },
    { match: 'forbidden', turns: [{ refuse: true }] },
  ],
}

let provider: TestProvider
beforeEach(async () => {
  provider = await startTestProvider(SCRIPT)
})
afterEach(async () => provider[Symbol.asyncDispose]())

const EASY: ProviderRequest = { model: 'm', prompt: 'Something easy.', isStream: true }

function ask(protocol: Protocol, question: Partial<ProviderRequest> = {}, init: RequestInit = {}): Promise<Response> {
  const { path, body } = buildProviderRequest(protocol, { ...EASY, ...question })
  return fetch(provider.url + path, { method: 'POST', body: JSON.stringify(body), ...init })
}

/** An answer, as our own gateway understands it. */
async function metered(protocol: Protocol, answer: Response): Promise<MeteredAnswer & { text: string }> {
  const meter = wireProtocols[protocol].createMeter()
  const text = await answer.text()
  if (!answer.headers.get('content-type')?.includes('event-stream')) meter.takeBody(JSON.parse(text))
  for (const [, data = ''] of text.matchAll(/^data: (.*)$/gm)) meter.takeEvent(data.trimEnd())
  return { ...meter.read(), text }
}

/** The protocol that tells the usage of a stream only to those who ask is asked, as the gateway does it. */
const wanted = (protocol: Protocol, question: Partial<ProviderRequest>): RequestInit => {
  const { body } = buildProviderRequest(protocol, { ...EASY, ...question })
  return { body: JSON.stringify(wireProtocols[protocol].rewriteBody(body, { model: 'm' })) }
}

describe.each(PROTOCOLS)('%s', (protocol) => {
  test.each([true, false])('runs the shell and ends, as a stream: %s', async (isStream) => {
    const first = await metered(protocol, await ask(protocol, { isStream }, wanted(protocol, { isStream })))
    expect(first.text).toContain('echo hello > hello.txt')
    const last = await metered(protocol, await ask(protocol, { isStream, results: 1 }))
    expect(last.text).toContain('It is done.')
    expect(last.text).not.toContain('hello.txt')
    expect([first, last]).toEqual([
      expect.objectContaining({ isComplete: true }),
      expect.objectContaining({ isComplete: true }),
    ])
  })

  test.each([true, false])('the usage in a stream matches the provider ledger: %s', async (isStream) => {
    const { usage, model } = await metered(
      protocol,
      await ask(protocol, { isStream }, wanted(protocol, { isStream, effort: 'low' })),
    )
    const [call] = provider.calls()
    expect(call).toMatchObject({ protocol, model: 'm', served: 'm', status: 200, results: 0, isUsageSaid: true })
    expect(call?.level?.toLowerCase()).toBe('low')
    expect(usage).toEqual(call?.usage)
    expect(provider.totals()).toEqual(usage)
    expect(model).toBe('m')
    expect(usage).toMatchObject({ cacheRead: 300, output: 50, reasoning: 20 })
  })

  test('the same call costs the same, and a higher reasoning level costs more', async () => {
    for (const effort of ['low', 'low', 'high']) await (await ask(protocol, { prompt: 'hard', effort })).text()
    const [one, other, hard] = provider.calls().map(({ usage }) => usage?.output ?? 0)
    expect(one).toBe(other)
    expect(hard).toBeGreaterThan(one ?? Number.NaN)
  })

  test('refuses', async () => {
    expect((await metered(protocol, await ask(protocol, { prompt: 'forbidden' }))).isRefusal).toBe(true)
    expect((await metered(protocol, await ask(protocol, { prompt: 'forbidden', isStream: false }))).isRefusal).toBe(
      true,
    )
  })

  test('calls tools forever', async () => {
    for (const results of [0, 1, 7]) {
      expect((await metered(protocol, await ask(protocol, { prompt: 'for ever', results }))).text).toContain('true')
    }
  })

  test('fails the scripted number of calls and then succeeds', async () => {
    provider.addFault({ status: 429, retryAfter: '1', times: 2 })
    const answers = [await ask(protocol), await ask(protocol), await ask(protocol)]
    expect(answers.map(({ status }) => status)).toEqual([429, 429, 200])
    expect(answers[0]?.headers.get('retry-after')).toBe('1')
    expect(provider.calls().map(({ usage }) => usage === null)).toEqual([true, true, false])
  })

  test('a stream that is cut breaks the connection and reports no usage', async () => {
    provider.addFault({ cutAfter: 2 })
    const answer = await ask(protocol)
    await expect(answer.text()).rejects.toThrow()
    expect(provider.calls()).toMatchObject([{ status: 200, isUsageSaid: false }])
  })

  test('noise between events does not hide them', async () => {
    provider.addFault({ malformed: 'within' })
    const { usage } = await metered(protocol, await ask(protocol, {}, wanted(protocol, {})))
    expect(usage).toEqual(provider.calls()[0]?.usage)
  })

  test('noise instead of events has no usage', async () => {
    provider.addFault({ malformed: 'after' })
    const { usage, isComplete } = await metered(protocol, await ask(protocol))
    expect([usage, isComplete, provider.calls()[0]?.isUsageSaid]).toEqual([undefined, false, false])
  })
})

test('a stream without usage reporting contains no usage', async () => {
  const { usage } = await metered('openai-chat', await ask('openai-chat'))
  expect([usage, provider.calls()[0]?.isUsageSaid]).toEqual([undefined, false])
})

test.each(['before', 'within'] as const)('hangs %s its answer', async (hang) => {
  provider.addFault({ hang })
  const stop = new AbortController()
  const answer = ask('anthropic-messages', {}, { signal: stop.signal }).then((each) => each.text())
  await provider.whenCalls(1)
  stop.abort()
  await expect(answer).rejects.toThrow('abort')
  expect(provider.calls()).toMatchObject([{ isUsageSaid: false }])
})

test('a slow stream has the same content', async () => {
  const quick = await (await ask('gemini')).text()
  provider.addFault({ pauseMs: 1 })
  const without = (text: string): string => text.replaceAll(/\d{24}/g, '')
  expect(without(await (await ask('gemini')).text())).toBe(without(quick))
})

test('a wrong key and an unknown model are refused, and another model may answer', async () => {
  provider.setScript({ ...SCRIPT, keys: ['right'], models: ['m'], served: { m: 'm-2' } })
  const header = { 'x-api-key': 'right' }
  expect((await ask('anthropic-messages')).status).toBe(401)
  expect((await ask('openai-chat', {}, { headers: { authorization: 'Bearer wrong' } })).status).toBe(401)
  expect((await ask('openai-chat', {}, { headers: { authorization: 'Bearer right' } })).status).toBe(200)
  expect((await ask('gemini', {}, { headers: { 'x-goog-api-key': 'right' } })).status).toBe(200)
  expect((await ask('anthropic-messages', { model: 'other' }, { headers: header })).status).toBe(404)
  const { model } = await metered('anthropic-messages', await ask('anthropic-messages', {}, { headers: header }))
  expect(model).toBe('m-2')
})

test('accepts compressed bodies', async () => {
  const body = JSON.stringify(buildProviderRequest('openai-responses', EASY).body)
  for (const [encoding, bytes] of [
    ['gzip', gzipSync(body)],
    ['zstd', zstdCompressSync(body)],
  ] as const) {
    const init = { body: new Uint8Array(bytes), headers: { 'content-encoding': encoding } }
    expect((await ask('openai-responses', {}, init)).status).toBe(200)
  }
  expect(provider.calls().map(({ model }) => model)).toEqual(['m', 'm'])
})

test('refuses a WebSocket', async () => {
  const headers = { connection: 'Upgrade', upgrade: 'websocket' }
  const [answer] = await once(request(`${provider.url}/v1/responses`, { headers }).end(), 'response')
  expect(answer.statusCode).toBe(426)
})

test('garbage is answered, or the connection ends', async () => {
  for (const body of ['', 'null', '[]', '{"messages":3,"tools":[null,7],"input":{},"contents":"x"}']) {
    for (const protocol of PROTOCOLS) expect((await ask(protocol, {}, { body })).status).toBe(200)
  }
  expect((await fetch(`${provider.url}/nowhere`)).status).toBe(404)
})

test('can be scripted over HTTP', async () => {
  const tell = async (method: string, path: string, body?: JsonObject): Promise<number> =>
    (await fetch(`${provider.url}/__control/${path}`, { method, ...(body ? { body: JSON.stringify(body) } : {}) }))
      .status
  expect(await tell('PUT', 'script', { tasks: [{ match: 'easy', turns: [{ say: 'Another script.' }] }] })).toBe(200)
  expect(await tell('POST', 'faults', { status: 503 })).toBe(200)
  expect(await tell('POST', 'faults', { status: 7 })).toBe(400)
  expect(await tell('PUT', 'script', { tusks: [] })).toBe(400)
  expect(await tell('GET', 'nothing')).toBe(404)
  expect((await ask('gemini')).status).toBe(503)
  expect(await (await ask('gemini')).text()).toContain('Another script.')
  expect(await (await fetch(`${provider.url}/__control/calls`)).json()).toMatchObject([
    { status: 503 },
    { status: 200 },
  ])
  expect(await tell('DELETE', 'calls')).toBe(200)
  expect(provider.calls()).toEqual([])
})

test('also runs as a program', async () => {
  const folder = new URL('../../samples/provider/', import.meta.url).pathname
  const args = [`${folder}serve.ts`, '--port', '0', '--script', `${folder}hello.json`]
  const program = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const [url] = await once(createInterface(program.stdout), 'line')
    const { path, body } = buildProviderRequest('gemini', { ...EASY, prompt: 'Write hello.txt.' })
    const answer = await fetch(url + path, { method: 'POST', body: JSON.stringify(body) })
    expect(await answer.text()).toContain('> hello.txt')
  } finally {
    program.kill()
  }
})
