import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { CLOUD_FIXTURES } from '../../../test/support/gateway/clouds/cloud-fixtures.ts'
import type { FakeCloud } from '../../../test/support/gateway/clouds/cloud-front.ts'
import { type GatewayFixture, openGatewayFixture, TERMS } from '../../../test/support/gateway/gateway.ts'
import type { Secret } from '../../credentials/seal.ts'
import type { ModelRequest } from '../../harnesses/conversation.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import { createLog } from '../../platform/log.ts'
import { complete } from '../client/open-model.ts'

/** Addresses of a workspace that may use model servers on this machine. */
const LOOPBACK = { networks: [{ address: '127.0.0.0', prefixLength: 8, family: 'ipv4' as const }] }

const asking: ModelRequest = {
  system: 'You are careful.',
  messages: [{ role: 'user', text: 'Please look.' }],
  signal: new AbortController().signal,
}

describe.each(CLOUD_FIXTURES)(
  '$name',
  ({ cloud, protocol, model, baseUrl, secret, wrongSecrets, start, authError }) => {
    let fake: FakeCloud
    let fixture: GatewayFixture
    let current: Secret
    const lines: string[] = []

    beforeAll(async () => {
      fake = await start({ models: [model], tasks: [{ match: 'look', turns: [{ say: 'Done so.' }] }] })
      fixture = await openGatewayFixture(() => {}, {
        log: createLog('debug', (line) => lines.push(line)),
        tools: {
          resolveUpstream: () => ({ url: baseUrl(fake.url), trust: LOOPBACK }),
          openSecret: async () => current,
        },
      })
    })
    beforeEach(() => {
      current = secret(fake.url)
    })
    afterEach(() => {
      fake.forget()
      fake.requests.length = 0
    })
    afterAll(async () => {
      await fixture[Symbol.asyncDispose]()
      await fake[Symbol.asyncDispose]()
    })

    const connect = async () => {
      const terms = { ...TERMS, model, cloud, protocols: [protocol], outputTokens: 50_000 }
      const sandbox = await fixture.sandbox({ terms })
      const access: ModelAccess = {
        model,
        provider: 'acme',
        protocols: [protocol],
        contextTokens: 100_000,
        outputTokens: 50_000,
        protocol,
        level: 'high',
        wireLevel: { effort: 'high' },
        baseUrl: sandbox.url,
        token: sandbox.token,
      }
      const ask = (isStream: boolean) => complete(access, asking, { isStream })
      const calls = async () => (await fixture.ledger.read(sandbox.id))?.calls
      return { ...sandbox, ask, calls }
    }

    test.each([
      ['whole', false],
      ['streamed', true],
    ])('a %s answer has the usage of the books', async (_form, isStream) => {
      const { ask, totals } = await connect()
      const { text, usage } = await ask(isStream)
      expect(text).toBe('Done so.')
      expect(fake.calls()).toMatchObject([{ isStream, model, usage, level: expect.stringMatching(/^high$/i) }])
      expect(await totals()).toMatchObject({ usage, costSource: 'metered' })
    })

    test.each(wrongSecrets)('$name is refused as the cloud refuses it, and is a rejected credential', async (wrong) => {
      current = { ...current, ...wrong.secret(fake.url) }
      const { ask, calls } = await connect()
      await expect(ask(true)).rejects.toMatchObject({ status: 402 })
      expect(await calls()).toMatchObject([{ outcome: 'failed', failure: 'credential', message: wrong.message }])
      expect(fake.calls()).toEqual([])
    })

    test('a request without authentication gets the error body of the cloud', async () => {
      const { status, body } = authError
      await (await connect()).ask(false)
      const { path = '', query = '', body: sent = Buffer.of() } = fake.requests.at(-1) ?? {}
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(`${fake.url}${path}?${query}`, { method: 'POST', headers, body: new Uint8Array(sent) })
      expect(answer.status).toBe(status)
      expect(await answer.json()).toMatchObject(body)
    })

    test('a rate limit is retried', async () => {
      fake.addFault({ status: 429, message: 'Too many requests, please wait before trying again.' })
      const { ask, calls } = await connect()
      await ask(true)
      expect(await calls()).toMatchObject([{ outcome: 'succeeded', tries: 2 }])
    })

    test('a request that is too long is the fault of the request, and the message is quoted', async () => {
      const message = 'prompt is too long: 210000 tokens > 200000 maximum'
      fake.addFault({ status: 400, message })
      const { ask, calls } = await connect()
      await expect(ask(true)).rejects.toThrow(message)
      expect(await calls()).toMatchObject([{ outcome: 'failed', failure: 'request', message, status: 400 }])
    })

    test('an unknown model is an operator error', async () => {
      fake.setScript({ models: ['another'] })
      const { ask, calls } = await connect()
      await expect(ask(false)).rejects.toMatchObject({ status: 404 })
      expect(await calls()).toMatchObject([{ failure: 'model' }])
      fake.setScript({ models: [model], tasks: [{ match: 'look', turns: [{ say: 'Done so.' }] }] })
    })

    test('a stream that breaks is cut', async () => {
      fake.addFault({ cutAfter: 1 })
      const { ask, calls } = await connect()
      await expect(ask(true)).rejects.toThrow('The model')
      expect(await calls()).toMatchObject([{ outcome: 'cut' }])
    })

    test('no secret is logged or stored', async () => {
      const values = Object.values(secret(fake.url)).filter((value) => value.length > 12)
      const text = lines.join('\n')
      expect(text).not.toBe('')
      for (const value of values) expect(text).not.toContain(value)
    })
  },
)
