import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Provider, startProvider } from '../../../samples/provider/provider.ts'
import { type Message, ModelCallFailed, type ModelRequest, type ToolDefinition } from '../../harnesses/conversation.ts'
import { type ModelAccess, PROTOCOLS, type Protocol, type WireLevel } from '../../harnesses/model-access.ts'
import { readGrant } from '../grants.ts'
import { type Bench, openBench, TERMS } from '../testing/bench.ts'
import { complete } from './complete.ts'
import { openModel } from './open-model.ts'

const SHELL: ToolDefinition = {
  name: 'shell',
  description: 'Runs a line of shell.',
  schema: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] },
}
const TURNS = [{ say: 'I look.', run: 'ls -l' }, { run: 'cat "a b"' }, { say: 'Done so.' }]

let provider: Provider
beforeAll(async () => {
  provider = await startProvider({ keys: ['t-1'], tasks: [{ match: 'look', turns: TURNS }] })
})
afterAll(async () => provider[Symbol.asyncDispose]())

const access = (protocol: Protocol, wireLevel: WireLevel = { effort: 'high' }): ModelAccess => ({
  ...{ model: 'large-1', provider: 'acme', protocols: [protocol], contextTokens: 100_000, outputTokens: 50_000 },
  ...{ protocol, level: 'high', wireLevel, baseUrl: provider.url, token: 't-1' },
})

const asking = (over: Partial<ModelRequest> = {}): ModelRequest => ({
  system: 'You are careful.',
  messages: [{ role: 'user', text: 'Please look.' }],
  tools: [SHELL],
  signal: new AbortController().signal,
  ...over,
})

const OFF: [WireLevel, string] = [{ off: true }, 'off']
const BUDGET: [WireLevel, string] = [{ budgetTokens: 2048 }, 'budget 2048']
const SAYABLE: Record<Protocol, [WireLevel, string][]> = {
  'anthropic-messages': [OFF, BUDGET],
  'openai-chat': [OFF],
  'openai-responses': [],
  gemini: [OFF, BUDGET],
}

describe.each(PROTOCOLS)('in %s', (protocol) => {
  test('a conversation with tools goes to its end, at the level that was asked for', async () => {
    provider.forget()
    const messages: Message[] = [{ role: 'user', text: 'Please look.' }]
    const lines: unknown[] = []
    for (;;) {
      const reply = await complete(access(protocol), asking({ messages }))
      messages.push({ role: 'model', raw: reply.raw })
      if (reply.stop !== 'tools') {
        expect(reply).toMatchObject({ text: 'Done so.', calls: [], stop: 'done' })
        break
      }
      lines.push(...reply.calls.map((call) => call.arguments))
      const results = reply.calls.map(({ id, name }) => ({ id, name, text: 'ok' }))
      messages.push({ role: 'results', results })
    }
    expect(lines).toEqual([{ command: 'ls -l' }, { command: 'cat "a b"' }])
    expect(provider.calls().map(({ level, results }) => [level?.toLowerCase(), results])).toEqual([
      ['high', 0],
      ['high', 1],
      ['high', 2],
    ])
  })

  test('its usage is what the provider has booked', async () => {
    provider.forget()
    const { usage } = await complete(access(protocol), asking())
    expect(usage).toEqual(provider.calls()[0]?.usage)
    expect(usage?.output).toBeGreaterThan(0)
  })

  test.each<[WireLevel, string | null]>([[{ effort: 'low' }, 'low'], [{ nothing: true }, null], ...SAYABLE[protocol]])(
    'the level %j is said as it is',
    async (wire, level) => {
      provider.forget()
      await complete(access(protocol, wire), asking())
      expect(provider.calls()[0]?.level?.toLowerCase() ?? null).toBe(level)
    },
  )

  test.each([401, 402, 404, 429, 500])('an error %i is one, is asked once, and says why', async (status) => {
    provider.forget()
    provider.addFault({ status, message: 'because' })
    const error = await complete(access(protocol), asking()).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ModelCallFailed)
    expect(error).toMatchObject({ status, message: `The model answered ${status}: because` })
    expect(provider.calls()).toHaveLength(1)
  })

  test('a refusal is a reply', async () => {
    provider.addFault({ refuse: true })
    expect((await complete(access(protocol), asking())).stop).toBe('refusal')
  })

  test('whoever gives up is heard', async () => {
    provider.addFault({ hang: 'before' })
    const abort = new AbortController()
    const waiting = complete(access(protocol), asking({ signal: abort.signal }))
    abort.abort(new Error('no longer wanted'))
    await expect(waiting).rejects.toThrow('no longer wanted')
  })

  test('a wrong token is in no message', async () => {
    const error = await complete({ ...access(protocol), token: 'sk-canary' }, asking()).catch(String)
    expect(error).toContain('401')
    expect(error).not.toContain('sk-canary')
  })
})

describe('through the gateway', () => {
  let bench: Bench
  beforeAll(async () => {
    const findUpstream = () => ({ url: provider.url, trust: 'operator' as const })
    bench = await openBench(() => {}, { tools: { findUpstream, openKey: async () => 't-1' } })
  })
  afterAll(async () => bench[Symbol.asyncDispose]())

  test.each(PROTOCOLS)('in %s: the listener opens the way, and the call is in the ledger', async (protocol) => {
    provider.forget()
    const { token, listener, id } = await bench.sandbox({
      terms: { ...TERMS, protocols: [protocol], outputTokens: 50_000 },
    })
    await using model = openModel({ ...access(protocol), token }, { url: bench.gateway.url, listener })
    const { usage } = await model.complete(asking())
    expect(await readGrant(bench.ledger, id)).toMatchObject({ usage, costSource: 'metered', levelMismatches: 0 })
    expect(provider.calls()).toHaveLength(1)
  })

  test('without the listener there is no way, and without the token nothing inside', async () => {
    const { token, listener } = await bench.sandbox()
    const ask = async (given: { token: string; listener: string }) => {
      const known = { ...access('anthropic-messages'), token: given.token }
      await using model = openModel(known, { url: bench.gateway.url, listener: given.listener })
      return await model.ask(asking()).catch((error: unknown) => error)
    }
    const unopened = await ask({ token, listener: 'sk-canary' })
    expect(unopened).toBeInstanceOf(ModelCallFailed)
    expect(String(unopened)).not.toContain('sk-canary')
    expect(await ask({ token: 'other', listener })).toMatchObject({ status: 401 })
  })

  test('what is spent is 402', async () => {
    const { token, listener } = await bench.sandbox({ budgetMicros: 1 })
    await using model = openModel({ ...access('openai-chat'), token }, { url: bench.gateway.url, listener })
    await expect(model.ask(asking())).rejects.toMatchObject({ status: 402 })
  })
})
