import { afterAll, beforeAll, expect, test } from 'vitest'
import { AZURE_KEY, startAzure } from '../../../test/support/gateway/clouds/azure.ts'
import type { FakeCloud } from '../../../test/support/gateway/clouds/cloud-front.ts'
import { type GatewayFixture, openGatewayFixture, TERMS } from '../../../test/support/gateway/gateway.ts'
import type { Secret } from '../../credentials/seal.ts'

let azure: FakeCloud
let fixture: GatewayFixture
let baseUrl = ''
let secret: Secret = {}
beforeAll(async () => {
  azure = await startAzure({ tasks: [{ match: 'hello', turns: [{ say: 'Done so.' }] }] })
  fixture = await openGatewayFixture(() => {}, {
    tools: {
      resolveUpstream: () => ({ url: baseUrl, trust: 'operator' }),
      openSecret: async () => secret,
    },
  })
})
afterAll(async () => {
  await fixture[Symbol.asyncDispose]()
  await azure[Symbol.asyncDispose]()
})

const ask = async (path: string, body: object, budgetMicros: number | null = null) => {
  const terms = { ...TERMS, model: 'our gpt', cloud: 'azure' as const, outputTokens: 50_000 }
  const { post } = await fixture.sandbox({ terms, budgetMicros })
  return (await post(path, { model: 'our gpt', ...body })).status
}
const CHAT = { messages: [{ role: 'user', content: 'hello' }] }

test.each([
  ['/openai/v1', undefined, '/v1/chat/completions', CHAT, '/openai/v1/chat/completions'],
  ['/openai/v1', undefined, '/v1/responses', { input: 'hello' }, '/openai/v1/responses'],
  ['', '2024-10-21', '/v1/chat/completions', CHAT, '/openai/deployments/our%20gpt/chat/completions'],
  ['/', '2024-10-21', '/v1/chat/completions', CHAT, '/openai/deployments/our%20gpt/chat/completions'],
  ['/openai/v1', '2024-10-21', '/v1/chat/completions', CHAT, '/openai/deployments/our%20gpt/chat/completions'],
  ['', '2025-04-01-preview', '/v1/responses', { input: 'hello' }, '/openai/responses'],
])('address "%s" with version %s: %s', async (base, apiVersion, path, body, sentPath) => {
  baseUrl = `${azure.url}${base}`
  secret = { apiKey: AZURE_KEY, ...(apiVersion === undefined ? {} : { apiVersion }) }
  expect(await ask(path, body)).toBe(200)
  const sent = azure.requests.at(-1)
  expect(sent?.path).toBe(sentPath)
  expect(sent?.query.get('api-version') ?? undefined).toBe(apiVersion)
  expect(sent?.headers['api-key']).toBe(AZURE_KEY)
  expect(sent?.headers).not.toHaveProperty('authorization')
})

test('a budget limits the output with the member that the models of OpenAI require', async () => {
  baseUrl = `${azure.url}/openai/v1`
  secret = { apiKey: AZURE_KEY }
  expect(await ask('/v1/chat/completions', CHAT, 100_000)).toBe(200)
  const sent = JSON.parse(azure.requests.at(-1)?.body.toString() ?? '')
  expect(sent).toMatchObject({ max_completion_tokens: expect.any(Number) })
  expect(sent).not.toHaveProperty('max_tokens')
})
