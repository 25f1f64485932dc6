import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { type ProviderServers, startProviders, VALID_KEY } from '../../test/support/credentials/provider-servers.ts'
import { createOutbound } from '../platform/outbound/outbound.ts'
import { checkDocker, checkGithub } from './checks.ts'
import { isStorable, providers } from './providers.ts'
import * as schema from './schema.ts'

let upstream: ProviderServers
let app: TestApp
beforeAll(async () => {
  upstream = await startProviders()
  app = await testApp({ ...upstream.environment, ANTHROPIC_API_KEY: VALID_KEY, DOCKER_HOST: 'unix:///nowhere.sock' })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

/** Those that are asked over the network with one key. */
const asked = providers
  .filter(({ provider, kind }) => kind === 'model' || provider === 'github')
  .filter(isStorable)
  .map(({ kind, provider, fields }) => ({ kind, provider, field: fields[0]?.name ?? '' }))

async function checkKey({ kind, provider, field }: (typeof asked)[number], key: string, through = app) {
  const body = { kind, provider, name: provider, secret: { [field]: key } }
  const created = await through.call(schema.createCredential, { body })
  return through.call(schema.checkCredential, { params: { credentialId: created.body.id } })
}

describe.each(asked)('$provider', (provider) => {
  test('accepts a valid key', async () => {
    expect(await checkKey(provider, VALID_KEY)).toMatchObject({
      status: 200,
      body: { ok: true, detail: `${provider.provider} accepted the credential.`, latencyMs: expect.any(Number) },
    })
  })

  test('rejects any other key and repeats nothing of the response', async () => {
    const wrong = 'sk-wrong-0123456789abcdef'
    const answer = await checkKey(provider, wrong)
    expect(answer.body).toEqual({
      ok: false,
      detail: `${provider.provider} refused the credential (401).`,
      latencyMs: expect.any(Number),
    })
    expect(answer.text + app.logged()).not.toContain(wrong)
  })
})

test.each([
  [403, 'openai refused the credential (403).'],
  [429, 'openai rate-limits our requests (429). Try again later.'],
  [500, 'openai responded with 500.'],
  [302, 'openai was not contacted (redirect_not_wanted).'],
])('reports an upstream status of %i', async (status, detail) => {
  await using moody = await startProviders()
  moody.answer(status, { location: 'https://elsewhere.example.com/' })
  await using own = await testApp(moody.environment)
  const answer = await checkKey({ kind: 'model', provider: 'openai', field: 'apiKey' }, VALID_KEY, own)
  expect(answer.body).toMatchObject({ ok: false, detail })
})

test('reports an unreachable upstream', async () => {
  const gone = await startProviders()
  await gone[Symbol.asyncDispose]()
  await using own = await testApp(gone.environment)
  const answer = await checkKey({ kind: 'model', provider: 'gemini', field: 'apiKey' }, VALID_KEY, own)
  expect(answer.body).toMatchObject({ ok: false, detail: 'gemini is unreachable (unreachable).' })
  expect(answer.text).not.toContain('127.0.0.1')
})

test('checks a key of the environment like a stored one', async () => {
  const { body } = await app.call(schema.listCredentials, { query: { limit: '200' } })
  const { id } = body.credentials.find(({ source }: schema.Credential) => source === 'environment')
  const answer = await app.call(schema.checkCredential, { params: { credentialId: id } })
  expect(answer.body).toMatchObject({ ok: true, detail: 'anthropic accepted the credential.' })
})

test.each([
  ['none', true, 'The reference solution needs no key.'],
  ['local', true, 'There is no key to check. The list of sandboxes shows whether a worker has it now.'],
  ['docker', false, 'The engine does not respond: it is unreachable (ENOENT).'],
])('the built-in %s', async (provider, ok, detail) => {
  const { body } = await app.call(schema.listCredentials, { query: { limit: '200' } })
  const { id } = body.credentials.find((one: schema.Credential) => one.provider === provider)
  const answer = await app.call(schema.checkCredential, { params: { credentialId: id } })
  expect(answer).toMatchObject({ status: 200, body: { ok, detail } })
})

test.each([
  ['sk-harbor-0123456789', true, /was not tested/],
  ['other-0123456789', false, /begin with sk-harbor-/],
])('checks only the format of a registry key: %s', async (key, ok, detail) => {
  const answer = await checkKey({ kind: 'registry', provider: 'harbor', field: 'apiKey' }, key)
  expect(answer.body).toMatchObject({ ok, detail: expect.stringMatching(detail) })
})

describe('a host that a client names', () => {
  const tools = { upstreams: upstreamsToNowhere(), environment: {}, outbound: createOutbound() }

  test('is used instead of github.com, and only if it is public', async () => {
    const asked: string[] = []
    const check = (addresses: () => Promise<string[]>) => {
      const resolve = (host: string) => {
        asked.push(host)
        return addresses()
      }
      return checkGithub({ ...tools, outbound: createOutbound({ resolve }) }, { token: 't', host: 'git.example.com' })
    }
    const verdict = await check(async () => ['10.0.0.1'])
    expect(verdict).toEqual({ ok: false, detail: 'github is unreachable (address_not_public).' })
    expect(asked).toEqual(['git.example.com'])
    expect(await check(async () => [])).toEqual(verdict)
    expect(await check(() => Promise.reject(new Error('ENOTFOUND')))).toEqual(verdict)
  })

  test('is refused as an engine if it is private, whatever was stored', async () => {
    expect(await checkDocker(tools, { host: 'tcp://127.0.0.1:2376' })).toEqual({
      ok: false,
      detail: 'The engine does not respond: the host does not resolve to public addresses only.',
    })
    expect(await checkDocker(tools, { host: 'unix:///var/run/docker.sock' })).toMatchObject({
      ok: false,
      detail: 'The address of the engine cannot be checked. Use tcp://HOST:PORT.',
    })
  })
})

/** The operator's base URL is for github.com; a host of a client's own must not be sent there. */
function upstreamsToNowhere() {
  return { github: 'http://127.0.0.1:9' }
}
