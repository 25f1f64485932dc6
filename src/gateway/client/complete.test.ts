import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Provider, startProvider } from '../../../samples/provider/provider.ts'
import { type GatewayFixture, openGatewayFixture, TERMS } from '../../../test/support/gateway/gateway.ts'
import { type Message, ModelCallFailed, type ModelRequest, type ToolDefinition } from '../../harnesses/conversation.ts'
import { type ModelAccess, PROTOCOLS, type Protocol, type WireLevel } from '../../harnesses/model-access.ts'
import { readGrant } from '../grants.ts'
import { complete as completeOnce, openModel } from './open-model.ts'

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
  model: 'large-1',
  provider: 'acme',
  protocols: [protocol],
  contextTokens: 100_000,
  outputTokens: 50_000,
  protocol,
  level: 'high',
  wireLevel,
  baseUrl: provider.url,
  token: 't-1',
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

const FORMS = PROTOCOLS.flatMap((protocol) => [
  { protocol, form: 'whole', isStream: false },
  { protocol, form: 'streamed', isStream: true },
])

describe.each(FORMS)('in $protocol, $form', ({ protocol, isStream }) => {
  const complete = (given: ModelAccess, request: ModelRequest) => completeOnce(given, request, { isStream })

  test('completes a conversation with tools at the requested level', async () => {
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

  test('reports the usage that the provider billed', async () => {
    provider.forget()
    const { usage } = await complete(access(protocol), asking())
    expect(usage).toEqual(provider.calls()[0]?.usage)
    expect(usage?.output).toBeGreaterThan(0)
    expect(provider.calls()[0]?.isStream).toBe(isStream)
  })

  test.each<[WireLevel, string | null]>([[{ effort: 'low' }, 'low'], [{ nothing: true }, null], ...SAYABLE[protocol]])(
    'sends the level %j',
    async (wire, level) => {
      provider.forget()
      await complete(access(protocol, wire), asking())
      expect(provider.calls()[0]?.level?.toLowerCase() ?? null).toBe(level)
    },
  )

  test.each([401, 402, 404, 429, 500])('an error %i fails the call at once with the reason', async (status) => {
    provider.forget()
    provider.addFault({ status, message: 'because' })
    const error = await complete(access(protocol), asking()).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ModelCallFailed)
    expect(error).toMatchObject({ status, message: `The model answered ${status}: because` })
    expect(provider.calls()).toHaveLength(1)
  })

  test('returns a refusal as a reply', async () => {
    provider.addFault({ refuse: true })
    expect((await complete(access(protocol), asking())).stop).toBe('refusal')
  })

  test('rejects when the caller aborts', async () => {
    provider.addFault({ hang: 'before' })
    const abort = new AbortController()
    const waiting = complete(access(protocol), asking({ signal: abort.signal }))
    abort.abort(new Error('no longer wanted'))
    await expect(waiting).rejects.toThrow('no longer wanted')
  })

  test('never quotes a token in an error', async () => {
    const error = await complete({ ...access(protocol), token: 'sk-canary' }, asking()).catch(String)
    expect(error).toContain('401')
    expect(error).not.toContain('sk-canary')
  })
})

test.each(PROTOCOLS)('in %s: a streamed reply equals the whole one', async (protocol) => {
  const ask = async (isStream: boolean) => {
    const {
      raw: _raw,
      thought: _thought,
      usage: _usage,
      ...reply
    } = await completeOnce(access(protocol), asking(), { isStream })
    return { ...reply, calls: reply.calls.map(({ id: _differs, ...call }) => call) }
  }
  expect(await ask(true)).toEqual(await ask(false))
})

test.each(PROTOCOLS)('in %s: a stream without an end fails, and so does one that falls silent', async (protocol) => {
  provider.addFault({ cutAfter: 2 })
  await expect(completeOnce(access(protocol), asking(), { isStream: true })).rejects.toThrow(ModelCallFailed)
  provider.addFault({ hang: 'within' })
  const silent = completeOnce(access(protocol), asking(), { isStream: true, silenceMs: 50 })
  await expect(silent).rejects.toThrow('The model did not answer (UND_ERR_BODY_TIMEOUT).')
})

describe('through the gateway', () => {
  let fixture: GatewayFixture
  beforeAll(async () => {
    const resolveUpstream = () => ({ url: provider.url, trust: 'operator' as const })
    fixture = await openGatewayFixture(() => {}, {
      tools: { resolveUpstream, openSecret: async () => ({ apiKey: 't-1' }) },
    })
  })
  afterAll(async () => fixture[Symbol.asyncDispose]())

  test.each(PROTOCOLS)('in %s: calls the model through a tunnel and records the call', async (protocol) => {
    provider.forget()
    const { token, tunnelSecret, id } = await fixture.sandbox({
      terms: { ...TERMS, protocols: [protocol], outputTokens: 50_000 },
    })
    await using model = openModel({ ...access(protocol), token }, { url: fixture.gateway.url, tunnelSecret })
    const { usage } = await model.ask(asking())
    expect(await readGrant(fixture.ledger, id)).toMatchObject({ usage, costSource: 'metered', levelMismatches: 0 })
    expect(provider.calls()).toHaveLength(1)
  })

  test('requires the tunnel secret and the token', async () => {
    const { token, tunnelSecret } = await fixture.sandbox()
    const ask = async (given: { token: string; tunnelSecret: string }) => {
      const known = { ...access('anthropic-messages'), token: given.token }
      await using model = openModel(known, { url: fixture.gateway.url, tunnelSecret: given.tunnelSecret })
      return await model.ask(asking()).catch((error: unknown) => error)
    }
    const unopened = await ask({ token, tunnelSecret: 'sk-canary' })
    expect(unopened).toBeInstanceOf(ModelCallFailed)
    expect(String(unopened)).not.toContain('sk-canary')
    expect(await ask({ token: 'other', tunnelSecret })).toMatchObject({ status: 401 })
  })

  test('fails with 402 when the budget is spent', async () => {
    const { token, tunnelSecret } = await fixture.sandbox({ budgetMicros: 1 })
    await using model = openModel({ ...access('openai-chat'), token }, { url: fixture.gateway.url, tunnelSecret })
    await expect(model.ask(asking())).rejects.toMatchObject({ status: 402 })
  })
})
