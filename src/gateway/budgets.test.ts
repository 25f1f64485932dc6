import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import {
  message,
  messagesRequest,
  newGrantFacts,
  openGatewayFixture,
  sendJson,
  TERMS,
} from '../../test/support/gateway/gateway.ts'
import { newId } from '../platform/ids.ts'
import { closeGrant, openGrant } from './grants.ts'
import type { Ledger, NewCall, Settlement } from './ledger.ts'
import { setSharedBudget, takeSpendMicros } from './spend/spend.ts'
import { createStoredLedger } from './stored-ledger.ts'
import { decideVerdict } from './verdict.ts'
import { NO_USAGE } from './wire-protocol.ts'

let database: TestDatabase
const workspaceId = newId()
const gateways = [newId(), newId()]
beforeAll(async () => {
  database = await testDatabase({ workspaceId })
})
afterAll(() => database[Symbol.asyncDispose]())

const settled = (costMicros: number): Settlement => ({
  outcome: 'succeeded',
  usage: NO_USAGE,
  costMicros,
  costSource: 'metered',
  status: 200,
  failure: null,
  tries: 1,
  servedModel: null,
  serviceTier: null,
  isRefusal: false,
  clientLeft: false,
  firstByteMs: 1,
  totalMs: 2,
  bodies: null,
  outputLimit: null,
})

const newCall = (grantId: string, least: number, most = least): NewCall => ({
  id: newId(),
  grantId,
  gatewayId: newId(),
  kind: 'generate',
  protocol: 'gemini',
  helper: null,
  levelAsked: null,
  bounds: { leastMicros: least, usualMicros: Math.min(most, 2 * least), mostMicros: most },
})

/** Numbers that look random and are the same in each run. */
const randomFrom = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const readBudget = async (id: string) =>
  (
    await database.pool.query(
      `select budget_micros, spent_micros, pending_micros,
        (select coalesce(sum(spent_micros), 0)::bigint from gateway_grants where shared_budget = $1) as grants,
        (select coalesce(sum(cost_micros), 0)::bigint from gateway_calls
          where grant_id in (select id from gateway_grants where shared_budget = $1)) as calls
       from gateway_budgets where id = $1`,
      [id],
    )
  ).rows[0]

const readSpent = async (id: string): Promise<number> =>
  (await database.pool.query('select spent_micros from gateway_budgets where id = $1', [id])).rows[0].spent_micros

async function openShared(ledger: Ledger, budgetMicros: number | null, grants: number, own: number | null = null) {
  const id = `test ${newId()}`
  await setSharedBudget(database.db, { id, workspaceId, budgetMicros })
  const opened = Array.from({ length: grants }, () =>
    openGrant(ledger, newGrantFacts({ workspaceId, sharedBudget: id, budgetMicros: own })),
  )
  return { id, grants: (await Promise.all(opened)).map((grant) => grant.id) }
}

/** Four calls, one after another. Of five calls one is never settled, because its gateway dies. */
async function spendAtRandom(
  ledger: Ledger,
  grant: string,
  random: (below: number) => number,
  onSpent: () => Promise<void>,
): Promise<void> {
  for (let turn = 0; turn < 4; turn += 1) {
    const least = 1 + random(400)
    const call = newCall(grant, least, least + random(2000))
    const result = await ledger.reserve(call)
    if (result.kind === 'reserved' && random(5) > 0)
      await ledger.settle(call.id, settled(random((result.reservedMicros ?? 0) + 1)))
    await onSpent()
  }
}

/** Random budgets; `ASSAY_TEST_LONG=1` tries ten times as many. */
const SEEDS = process.env.ASSAY_TEST_LONG === '1' ? 1000 : 100

test(`${SEEDS} random budgets, shared by concurrent grants whose gateways die at times, are never exceeded`, async () => {
  const ledger = createStoredLedger(database.db, { silenceMs: 0 })
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const random = randomFrom(seed)
    const budget = random(5000)
    const { id, grants } = await openShared(ledger, budget, 4, random(2) ? random(3000) : null)
    const seen: number[] = []
    await Promise.all(
      grants.map((grant) =>
        spendAtRandom(ledger, grant, random, async () => {
          seen.push(await readSpent(id))
        }),
      ),
    )
    for (const grant of grants) await ledger.giveUpLostCalls(grant)

    const { spent_micros: spent, pending_micros: pending, grants: granted, calls } = await readBudget(id)
    expect([seed, Math.max(0, spent, ...seen) <= budget]).toEqual([seed, true])
    expect([seed, pending, granted, calls]).toEqual([seed, 0, spent, spent])
  }
}, 600_000)

describe('a shared budget', () => {
  const ledger = () => createStoredLedger(database.db)

  test('limits a call to a quarter of the remainder, or to a usual call if that is more', async () => {
    const { grants } = await openShared(ledger(), 10_000, 1)
    const [grant = ''] = grants
    const bounds = (usualMicros: number) => ({ bounds: { leastMicros: 100, usualMicros, mostMicros: 50_000 } })
    const reserve = (usual: number) => ledger().reserve({ ...newCall(grant, 1), ...bounds(usual) })
    expect(await reserve(1000)).toEqual({ kind: 'reserved', reservedMicros: 2500, limitedBy: 'shared_budget' })
    expect(await reserve(6000)).toEqual({ kind: 'reserved', reservedMicros: 6000, limitedBy: 'shared_budget' })
    expect(await reserve(6000)).toEqual({ kind: 'reserved', reservedMicros: 1500, limitedBy: 'shared_budget' })
    expect(await reserve(6000)).toMatchObject({ kind: 'refused', reason: 'shared_budget', mayPass: true })
  })

  test('can be raised, and without a limit it only counts spend', async () => {
    const { id, grants } = await openShared(ledger(), 100, 1)
    const [grant = ''] = grants
    const call = newCall(grant, 150)
    expect(await ledger().reserve(call)).toMatchObject({ kind: 'refused', reason: 'shared_budget', mayPass: false })
    await setSharedBudget(database.db, { id, workspaceId, budgetMicros: 150 })
    expect(await ledger().reserve(call)).toMatchObject({ kind: 'reserved', reservedMicros: 150 })
    await setSharedBudget(database.db, { id, workspaceId, budgetMicros: null })
    expect(await ledger().reserve(newCall(grant, 9000))).toMatchObject({ kind: 'reserved', reservedMicros: 9000 })
    expect(await readBudget(id)).toMatchObject({ spent_micros: 9150, pending_micros: 9150 })
  })

  test('refuses calls of unknown price, unless it has no limit', async () => {
    const { id, grants } = await openShared(ledger(), 100, 1)
    const [grant = ''] = grants
    const unpriced = () => ({ ...newCall(grant, 1), bounds: null })
    expect(await ledger().reserve(unpriced())).toEqual({ kind: 'refused', reason: 'price', mayPass: false })
    await setSharedBudget(database.db, { id, workspaceId, budgetMicros: null })
    expect(await ledger().reserve(unpriced())).toEqual({ kind: 'reserved', reservedMicros: null, limitedBy: null })
  })

  test('is counted once; calls that are settled late are counted then', async () => {
    const grantee = `trial ${newId()}`
    const { id } = await openShared(ledger(), 10_000, 0)
    const grant = await openGrant(ledger(), newGrantFacts({ workspaceId, grantee, sharedBudget: id }))
    await ledger().noteAlive(gateways[0] ?? '')
    const [done, slow] = [newCall(grant.id, 300), { ...newCall(grant.id, 500), gatewayId: gateways[0] ?? '' }]
    await ledger().reserve(done)
    await ledger().settle(done.id, settled(120))
    await ledger().reserve(slow)
    await closeGrant(ledger(), grant.id, { drainMs: 0, settleMs: 0 })
    const take = () => takeSpendMicros(database.db, { workspaceId, grantee })

    expect([await take(), await take()]).toEqual([120, 0])
    await ledger().settle(slow.id, settled(80))
    expect([await take(), await take()]).toEqual([80, 0])
    expect(await readBudget(id)).toMatchObject({ spent_micros: 200, pending_micros: 0, grants: 200, calls: 200 })
  })
})

const chat = { model: TERMS.model, messages: [{ role: 'user', content: 'hello' }], reasoning_effort: 'high' }
const answered = (completion: number, finish = 'stop') => ({
  model: TERMS.model,
  choices: [{ finish_reason: finish, message: { content: 'x' } }],
  usage: { prompt_tokens: 10, completion_tokens: completion },
})

describe('a request without an output limit', () => {
  test('is limited to what the budget covers, and only then rewritten', async () => {
    await using fixture = await openGatewayFixture((response) => sendJson(response, answered(20)))
    const terms = { ...TERMS, provider: 'openai', outputTokens: 128_000 }
    const [rich, poor] = [await fixture.sandbox({ terms }), await fixture.sandbox({ terms, budgetMicros: 10_000 })]
    for (const sandbox of [rich, poor]) expect((await sandbox.post('/v1/chat/completions', chat)).status).toBe(200)

    const [unlimited, limited] = fixture.received.map(({ body }) => JSON.parse(String(body)))
    expect(unlimited).toEqual(chat)
    const { max_completion_tokens: limit, ...rest } = limited
    expect(rest).toEqual(chat)
    expect(limit).toBeGreaterThan(500)
    expect(limit * 15).toBeLessThan(10_000)
    const [call] = (await fixture.ledger.read(poor.id))?.calls ?? []
    expect(call).toMatchObject({ outputLimit: limit, limitedBy: 'budget', reservedMicros: 10_000, costMicros: 330 })
    expect(decideVerdict(FAILED, await poor.totals())).toMatchObject({ class: 'agent_exit' })
  })

  test('is refused when the budget does not cover a useful answer', async () => {
    await using fixture = await openGatewayFixture((response) => sendJson(response, answered(20)))
    const sandbox = await fixture.sandbox({ terms: { ...TERMS, outputTokens: 128_000 }, budgetMicros: 3000 })
    expect((await sandbox.post('/v1/chat/completions', chat)).status).toBe(402)
    expect(fixture.received).toEqual([])
    expect(await sandbox.totals()).toMatchObject({ lastFailure: { kind: 'budget' } })
  })

  test('that sets tokens aside for reasoning is refused when they leave no room for an answer', async () => {
    await using fixture = await openGatewayFixture((response) => sendJson(response, message()))
    const sandbox = await fixture.sandbox({ budgetMicros: 60_000 })
    const thinking = { type: 'enabled', budget_tokens: 4000 }
    expect((await sandbox.post('/v1/messages', messagesRequest({ thinking, max_tokens: 32_000 }))).status).toBe(402)
    expect(
      (await sandbox.post('/v1/messages', messagesRequest({ thinking: undefined, max_tokens: 32_000 }))).status,
    ).toBe(200)
    const small = { type: 'enabled', budget_tokens: 1024 }
    expect((await sandbox.post('/v1/messages', messagesRequest({ thinking: small, max_tokens: 32_000 }))).status).toBe(
      200,
    )
    for (const { body } of fixture.received) {
      const { max_tokens: limit, thinking: kept } = JSON.parse(String(body))
      expect(limit).toBeGreaterThan((kept?.budget_tokens ?? 0) + 255)
      expect(limit).toBeLessThan(4256)
    }
  })

  test('with a separate budget for reasoning reserves it in addition to the limit', async () => {
    await using fixture = await openGatewayFixture((response) => sendJson(response, answered(20)))
    const sandbox = await fixture.sandbox({ budgetMicros: 60_000 })
    const ask = (changes: object) => sandbox.post('/v1/chat/completions', { ...chat, max_tokens: 300, ...changes })
    expect((await ask({ thinking_budget: 1_000_000 })).status).toBe(402)
    expect((await ask({ thinking_budget: 1_000_000, reasoning: { max_tokens: 1 } })).status).toBe(402)
    expect((await ask({ thinking_budget: 1024, max_tokens: 32_000 })).status).toBe(200)

    const limits = fixture.received.map(({ body }) => JSON.parse(String(body)).max_tokens)
    const [call] = (await fixture.ledger.read(sandbox.id))?.calls ?? []
    expect(limits).toEqual([(call?.outputLimit ?? 0) - 1024])
    expect(limits[0]).toBeGreaterThan(255)
  })

  test('whose answer ends at the limit makes the trial a budget stop, whatever follows', async () => {
    await using fixture = await openGatewayFixture((response) => sendJson(response, answered(600, 'length')))
    const sandbox = await fixture.sandbox({ terms: { ...TERMS, outputTokens: 128_000 }, budgetMicros: 20_000 })
    await sandbox.post('/v1/chat/completions', chat)
    await sandbox.post('/v1/chat/completions', chat)
    expect(decideVerdict(FAILED, await sandbox.totals())).toMatchObject({ state: 'failed', class: 'budget_stop' })
  })

  test('waits while other calls hold the budget, and uses what they return', async () => {
    const release = Promise.withResolvers<void>()
    await using fixture = await openGatewayFixture(async (response, _, place) => {
      if (place === 0) await release.promise
      sendJson(response, answered(20))
    })
    const sandbox = await fixture.sandbox({ terms: { ...TERMS, outputTokens: 128_000 }, budgetMicros: 10_000 })
    const first = sandbox.post('/v1/chat/completions', chat)
    await expect.poll(() => fixture.received.length).toBe(1)
    const second = sandbox.post('/v1/chat/completions', chat)
    await expect.poll(() => fixture.gateway.tunnels()).toBe(2)
    release.resolve()
    expect([(await first).status, (await second).status]).toEqual([200, 200])
    expect(await sandbox.totals()).toMatchObject({ costMicros: 660, refusals: {} })
  })
})

const FAILED = { state: 'failed', class: 'agent_exit', error: null } as const

test('a trial that a shared budget cuts off is not scored and runs again', async () => {
  const { id } = await openShared(createStoredLedger(database.db), 20_000, 0)
  await using fixture = await openGatewayFixture((response) => sendJson(response, answered(600, 'length')), {
    ledger: createStoredLedger(database.db),
  })
  const terms = { ...TERMS, outputTokens: 128_000 }
  const sandbox = await fixture.sandbox({ workspaceId, terms, sharedBudget: id })
  await sandbox.post('/v1/chat/completions', chat)
  const cut = decideVerdict({ ...FAILED, state: 'passed' }, await sandbox.totals())
  while ((await sandbox.post('/v1/chat/completions', chat)).status === 200);
  const refused = decideVerdict(FAILED, await sandbox.totals())
  expect([cut, refused]).toMatchObject([
    { kind: 'stopped', reason: 'budget' },
    { kind: 'stopped', reason: 'budget' },
  ])
  const { spent_micros: spent, budget_micros: budget } = await readBudget(id)
  expect(spent).toBeLessThanOrEqual(budget)
})
