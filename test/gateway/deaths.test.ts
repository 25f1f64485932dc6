import { afterAll, beforeAll, expect, test } from 'vitest'
import type { MockUsage } from '../../samples/provider/conversation.ts'
import { closeGrant } from '../../src/gateway/grants.ts'
import { computeCostMicros } from '../../src/gateway/price.ts'
import { createStoredLedger } from '../../src/gateway/stored-ledger.ts'
import { PROTOCOLS } from '../../src/harnesses/model-access.ts'
import { newId } from '../../src/platform/ids.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { openGatewayFixture, TERMS } from '../support/gateway/gateway.ts'
import { buildProviderRequest, startTestProvider } from '../support/provider.ts'

const MODEL = 'large-1'
const AGENTS = 24
/** All input classes have the same price, because OpenAI's protocols report them only at the end. */
const PRICES = { input: 3, cacheRead: 3, cacheWrite5m: 3, cacheWrite1h: 3, output: 15 }
const TEXT = 'Words that come in several pieces, so that a stream can end in the middle of what it has to say to us. '

let database: TestDatabase
const workspaceId = newId()
beforeAll(async () => {
  database = await testDatabase({ workspaceId })
})
afterAll(() => database[Symbol.asyncDispose]())

const micros = (usage: MockUsage | null): number => (usage ? (computeCostMicros(usage, PRICES) ?? 0) : 0)

test("the ledger matches the provider's records when agents die during a stream", async () => {
  // Every third agent reads to the end; the others die after two to seven events.
  const faults = Array.from({ length: AGENTS }, (_, place) => (place % 3 === 0 ? {} : { hangAfter: 2 + (place % 6) }))
  const turns = [{ say: TEXT.repeat(3) }]
  await using provider = await startTestProvider({ models: [MODEL], tasks: [{ match: 'Call', turns }], faults })
  const ledger = createStoredLedger(database.db)
  const resolveUpstream = () => ({ url: provider.url, trust: 'operator' as const })
  await using fixture = await openGatewayFixture(() => {}, {
    ledger,
    options: { drainMs: 200 },
    tools: { resolveUpstream },
  })

  const spent: { place: number; cost: number | null; sources: string; billed: number }[] = []
  for (let place = 0; place < AGENTS; place += 1) {
    const sandbox = await fixture.sandbox({ workspaceId, terms: { ...TERMS, prices: PRICES } })
    const protocol = PROTOCOLS[place % PROTOCOLS.length] ?? 'gemini'
    const { path, body } = buildProviderRequest(protocol, { model: MODEL, prompt: `Call ${place};`, isStream: true })
    const answer = await sandbox.post(path, body)
    const isDying = place % 3 !== 0
    if (isDying) await answer.body?.getReader().read()
    else await answer.text()
    // The sandbox has ended, and with it all of its connections.
    sandbox.port.close()
    const { costMicros: cost, costSource, calls } = await closeGrant(ledger, sandbox.id)
    expect(calls).toMatchObject({ open: 0, lost: 0, [isDying ? 'cut' : 'succeeded']: 1 })
    spent.push({ place, cost, sources: costSource, billed: micros(provider.calls()[place]?.usage ?? null) })
  }

  expect(spent.filter(({ cost, billed }) => cost !== billed)).toEqual([])
  expect(spent.map(({ sources }) => sources)).toEqual(spent.map(({ place }) => (place % 3 ? 'estimated' : 'metered')))
  const { rows } = await database.pool.query('select sum(cost_micros)::int as total from gateway_calls')
  expect(rows).toEqual([{ total: spent.reduce((sum, { billed }) => sum + billed, 0) }])
})

test('a request whose client has disconnected is canceled, so that a provider with one slot is free again', async () => {
  await using fixture = await openGatewayFixture(
    (response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': one\n\n'),
    { options: { drainMs: 20 } },
  )
  const sandbox = await fixture.sandbox()
  const answer = await sandbox.post('/v1/messages', { model: MODEL, stream: true, max_tokens: 9, messages: [] })
  await answer.body?.getReader().read()
  expect(fixture.provider.connections).toHaveLength(1)
  sandbox.port.close()

  await expect.poll(() => fixture.provider.connections.filter(({ destroyed }) => !destroyed).length).toBe(0)
})
