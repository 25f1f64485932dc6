import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { openGatewayFixture, type ProviderHandler, sendJson, TERMS } from '../../test/support/gateway/gateway.ts'
import { newId } from '../platform/ids.ts'
import { setSharedBudget } from './spend/spend.ts'
import { createStoredLedger } from './stored-ledger.ts'

let database: TestDatabase
const workspaceId = newId()
beforeAll(async () => {
  database = await testDatabase({ workspaceId })
})
afterAll(() => database[Symbol.asyncDispose]())

const DOLLAR = 1_000_000
const TEXT = 'x'.repeat(8_000)

test('calls through two gateways cost no more than their budget, also while it changes and grants are closed', async () => {
  let billedMicros = 0
  // Bills everything that a request allows: each byte of its text, and its whole output limit.
  const answer: ProviderHandler = (response, { body }) => {
    const { max_tokens: output } = JSON.parse(body.toString())
    billedMicros += TEXT.length * 3.75 + output * 15
    const usage = { input_tokens: 0, cache_creation_input_tokens: TEXT.length, output_tokens: output }
    sendJson(response, { type: 'message', model: 'large-1', content: [], stop_reason: 'end_turn', usage })
  }
  const open = () =>
    openGatewayFixture(answer, { ledger: createStoredLedger(database.db), options: { budgetWaitMs: 500 } })
  await using first = await open()
  await using second = await open()
  const sharedBudget = `test ${newId()}`
  const setBudget = (budgetMicros: number) =>
    setSharedBudget(database.db, { id: sharedBudget, workspaceId, budgetMicros })
  await setBudget(DOLLAR)
  const sandboxes = await Promise.all(
    [first, second, first, second].map((fixture) => fixture.sandbox({ workspaceId, terms: TERMS, sharedBudget })),
  )
  const request = { model: 'large-1', max_tokens: 2_000, messages: [{ role: 'user', content: TEXT }] }

  const calls = sandboxes.map(async (sandbox, at) => {
    for (let turn = 0; turn < 12; turn += 1) {
      await Promise.all([1, 2].map(() => sandbox.post('/v1/messages', request)))
      await setBudget(turn % 2 === 0 ? DOLLAR / 2 : DOLLAR)
      if (at === 3 && turn === 6) await first.ledger.close(sandbox.id)
    }
  })
  await Promise.all(calls)

  const [row] = (
    await database.pool.query('select spent_micros, pending_micros from gateway_budgets where id = $1', [sharedBudget])
  ).rows
  expect(billedMicros).toBeGreaterThan(DOLLAR / 2)
  expect(billedMicros).toBeLessThanOrEqual(DOLLAR)
  expect(row).toEqual({ spent_micros: Math.round(billedMicros), pending_micros: 0 })
})
