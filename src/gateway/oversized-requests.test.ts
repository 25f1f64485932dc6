import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import {
  type GatewayFixture,
  message,
  messagesRequest,
  openGatewayFixture,
  type ProviderHandler,
  sendJson,
  TERMS,
} from '../../test/support/gateway/gateway.ts'
import { newId } from '../platform/ids.ts'
import { setSharedBudget } from './spend/spend.ts'
import { createStoredLedger } from './stored-ledger.ts'
import { decideVerdict } from './verdict.ts'

// A request must not be able to look as if the comparison's budget had run out.

let database: TestDatabase
const workspaceId = newId()
beforeAll(async () => {
  database = await testDatabase({ workspaceId })
})
afterAll(() => database[Symbol.asyncDispose]())

const FAILED = { state: 'failed', class: 'agent_exit', error: null } as const
const DOLLAR = 1_000_000

const openStored = (answer: ProviderHandler, options = {}): Promise<GatewayFixture> =>
  openGatewayFixture(answer, { ledger: createStoredLedger(database.db), options })

async function openShared(budgetMicros: number): Promise<string> {
  const id = `test ${newId()}`
  await setSharedBudget(database.db, { id, workspaceId, budgetMicros })
  return id
}

const repeated = (count: number, block: object) =>
  messagesRequest({ messages: [{ role: 'user', content: Array(count).fill(block) }] })
const inline = (type: string) => ({ type, source: { type: 'base64', media_type: 'image/png', data: 'AA==' } })

const OVERSIZED: [string, object][] = [
  ['20,000 pictures', repeated(20_000, inline('image'))],
  ['2,000 documents', repeated(2_000, inline('document'))],
  ['8 MB of text', messagesRequest({ messages: [{ role: 'user', content: 'x'.repeat(8_000_000) }] })],
]

test.each(OVERSIZED)('a request with %s reserves no more input than the model takes', async (_, body) => {
  await using fixture = await openStored((response) => sendJson(response, { error: { message: 'too long' } }, 400))
  const terms = { ...TERMS, contextTokens: 200_000 }
  const sandbox = await fixture.sandbox({ workspaceId, terms, sharedBudget: await openShared(5 * DOLLAR) })

  expect((await sandbox.post('/v1/messages', body)).status).toBe(400)

  const [call] = (await fixture.ledger.read(sandbox.id))?.calls ?? []
  expect(call?.reservedMicros).toBe(200_000 * 3.75 + 100 * 15)
  expect(decideVerdict(FAILED, await sandbox.totals())).toMatchObject({ kind: 'judged', state: 'failed' })
})

test.each(OVERSIZED)('a request with %s that exceeds the entire shared budget is scored', async (_, body) => {
  await using fixture = await openStored((response) => sendJson(response, message()))
  const terms = { ...TERMS, contextTokens: 2_000_000 }
  const sandbox = await fixture.sandbox({ workspaceId, terms, sharedBudget: await openShared(5 * DOLLAR) })
  expect((await sandbox.post('/v1/messages', messagesRequest())).status).toBe(200)

  const answer = await sandbox.post('/v1/messages', body)

  expect([answer.status, fixture.received.length]).toEqual([413, 1])
  const totals = await sandbox.totals()
  expect(totals).toMatchObject({ refusals: { size: 1 }, lastFailure: { kind: 'size' } })
  expect(decideVerdict(FAILED, totals)).toMatchObject({ kind: 'judged', state: 'failed' })
})

test('a request that only its own size keeps out of a half spent budget is scored', async () => {
  await using fixture = await openStored((response) => sendJson(response, message()))
  const sharedBudget = await openShared(4 * DOLLAR)
  await database.db
    .updateTable('gateway_budgets')
    .set({ spent_micros: 2 * DOLLAR })
    .where('id', '=', sharedBudget)
    .execute()
  const terms = { ...TERMS, contextTokens: 1_000_000 }
  const sandbox = await fixture.sandbox({ workspaceId, terms, sharedBudget })

  const answer = await sandbox.post('/v1/messages', messagesRequest({ messages: 'x'.repeat(900_000) }))

  expect(answer.status).toBe(413)
  expect(decideVerdict(FAILED, await sandbox.totals())).toMatchObject({ kind: 'judged', state: 'failed' })
})

test.each<[string, number, number]>([
  ['an ordinary request', 60_000, 4 * DOLLAR - 150_000],
  ['a first request that the entire budget does not cover', 120_000, 0],
])('%s that the shared budget does not cover returns the trial to the queue', async (_, bytes, spent) => {
  await using fixture = await openStored((response) => sendJson(response, message()))
  const sharedBudget = await openShared(spent === 0 ? 300_000 : 4 * DOLLAR)
  await database.db.updateTable('gateway_budgets').set({ spent_micros: spent }).where('id', '=', sharedBudget).execute()
  const sandbox = await fixture.sandbox({ workspaceId, terms: { ...TERMS, contextTokens: 1_000_000 }, sharedBudget })

  const answer = await sandbox.post('/v1/messages', messagesRequest({ messages: 'x'.repeat(bytes) }))

  expect(answer.status).toBe(402)
  expect(decideVerdict(FAILED, await sandbox.totals())).toMatchObject({ kind: 'stopped', reason: 'budget' })
})

test('a long conversation that outgrows the rest of the shared budget returns the trial to the queue', async () => {
  const usage = { input_tokens: 280_000, output_tokens: 5 }
  await using fixture = await openStored((response) => sendJson(response, message({ usage })))
  const sharedBudget = await openShared(2.5 * DOLLAR)
  const sandbox = await fixture.sandbox({ workspaceId, terms: { ...TERMS, contextTokens: 1_000_000 }, sharedBudget })
  const conversation = Array.from({ length: 400_000 }, (_, at) => String.fromCharCode(33 + (at % 90))).join('')
  const say = (...texts: string[]) =>
    sandbox.post('/v1/messages', messagesRequest({ messages: texts.map((content) => ({ role: 'user', content })) }))
  expect((await say(conversation)).status).toBe(200)

  const answer = await say(conversation, 'y'.repeat(300_000))

  expect(answer.status).toBe(402)
  expect(decideVerdict(FAILED, await sandbox.totals())).toMatchObject({ kind: 'stopped', reason: 'budget' })
})

test('a trial whose own open calls hold the shared budget is told to wait, and does not pause the comparison', async () => {
  const release = Promise.withResolvers<void>()
  await using fixture = await openStored(
    async (response) => {
      await release.promise
      sendJson(response, message())
    },
    { budgetWaitMs: 100 },
  )
  const terms = { ...TERMS, outputTokens: 30_000 }
  const sandbox = await fixture.sandbox({ workspaceId, terms, sharedBudget: await openShared(500_000) })
  const greedy = messagesRequest({ max_tokens: 30_000 })
  const held = [sandbox.post('/v1/messages', greedy), sandbox.post('/v1/messages', greedy)]
  await expect.poll(() => fixture.received.length).toBe(2)

  const answer = await sandbox.post('/v1/messages', greedy)
  release.resolve()
  await Promise.all(held)

  expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '1'])
  const totals = await sandbox.totals()
  expect(totals.refusals).toEqual({ busy: 1 })
  expect(decideVerdict(FAILED, totals).kind).toBe('judged')
})
