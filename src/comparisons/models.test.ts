import { expect, test } from 'vitest'
import { CANARY, openModelComparisonLab } from '../../test/support/model-comparing.ts'
import type { ComparisonTrial } from './shapes/schema.ts'
import { countLateSpend } from './trials/spend.ts'

const USAGE = { input: 1000, cacheRead: 200, cacheWrite5m: 100, cacheWrite1h: 0, output: 50, reasoning: 20 }
// 2, 0.20, 2.50 and 10 dollars for a million of each: 2000 + 40 + 250 + 500 micro-dollars.
const CALL_USD = 0.00279
const script = { tasks: [{ match: 'Work', turns: [{ say: 'Done.', usage: USAGE }] }] }

const passed = { state: 'passed', class: 'verified', reward: 1, rewards: { reward: 1 } } as const
const failed = { state: 'failed', class: 'agent_exit', reward: 0, rewards: { reward: 0 } } as const

test('a trial costs what the provider bills, call by call, and the key is not stored or shown', async () => {
  await using shop = await openModelComparisonLab(async (ask) => {
    await ask()
    await ask()
    return passed
  }, script)
  const { body } = await shop.create({ models: shop.models })
  await shop.work()

  const status = await shop.read(body.id)
  expect(status).toMatchObject({ state: 'completed', trials: { passed: 5 } })
  expect(status.costUsd).toBeCloseTo(10 * CALL_USD, 6)
  expect(status.settings[0]).toMatchObject({ accuracy: 100, harness: 'claude-code', reasoningLevel: 'high' })
  expect(status.settings[0].costPerTaskUsd).toBeCloseTo(2 * CALL_USD, 6)
  const [trial] = await shop.trials(body.id)
  expect(trial).toMatchObject({
    usage: { input: 2000, cacheRead: 400, cacheWrite: 200, output: 100, reasoning: 40 },
    costSource: 'metered',
  })
  const first = await shop.app.call(shop.endpoints.calls, {
    ...shop.at(body.id, { trialId: trial.id }),
    query: { limit: '1' },
  })
  const cursor: string = first.body.nextCursor
  const second = await shop.app.call(shop.endpoints.calls, {
    ...shop.at(body.id, { trialId: trial.id }),
    query: { cursor },
  })
  expect([...first.body.calls, ...second.body.calls]).toMatchObject([
    { outcome: 'succeeded', status: 200, tries: 1, costSource: 'metered', levelMismatch: false },
    { outcome: 'succeeded', costUsd: CALL_USD },
  ])
  expect(second.body.nextCursor).toBeNull()
  expect(shop.provider.calls()).toHaveLength(10)
  expect(shop.app.logged()).not.toContain(CANARY)
})

test('no trial starts when the budget is spent; a larger budget continues the comparison', async () => {
  await using shop = await openModelComparisonLab(async (ask) => {
    await ask()
    return passed
  }, script)
  const { body } = await shop.create({ models: shop.models, budgetUsd: 2 * CALL_USD, concurrency: 1 })
  await shop.work()
  const paused = await shop.read(body.id)
  expect(paused).toMatchObject({ state: 'paused', pause: { reason: 'budget' } })
  expect(paused.trials.passed).toBeLessThan(5)
  const before = shop.provider.calls().length

  expect((await shop.resume(body.id, { budgetUsd: 1 })).status).toBe(202)
  await shop.work()
  expect(await shop.read(body.id)).toMatchObject({ state: 'completed', trials: { passed: 5 } })
  expect(shop.provider.calls()).toHaveLength(5)
  expect(before).toBe(paused.trials.passed)
})

test('a trial that exhausts its own budget is informed and verified as it is', async () => {
  const statuses: number[] = []
  await using shop = await openModelComparisonLab(async (ask) => {
    while (statuses.at(-1) !== 402) statuses.push(await ask())
    return failed
  }, script)
  const { body } = await shop.create({ models: shop.models, trialBudgetUsd: 0.02 })
  await shop.work()
  expect(new Set(statuses)).toEqual(new Set([200, 402]))
  const [trial] = await shop.trials(body.id)
  expect(trial).toMatchObject({ state: 'failed', class: 'budget_stop' })
  expect(trial.costUsd).toBeLessThanOrEqual(0.02)
})

test('a key that the provider rejects pauses the comparison, and a valid one finishes it', async () => {
  await using shop = await openModelComparisonLab(
    async (ask) => {
      await ask()
      return failed
    },
    { ...script, keys: ['another key'] },
  )
  const { body } = await shop.create({ models: shop.models, concurrency: 1 })
  await shop.work()
  expect(await shop.read(body.id)).toMatchObject({
    state: 'paused',
    pause: { reason: 'credential' },
    trials: { queued: 5, errored: 0 },
    costUsd: 0,
  })
  shop.provider.setScript(script)
  await shop.resume(body.id)
  await shop.work()
  expect(await shop.read(body.id)).toMatchObject({ state: 'completed', trials: { failed: 5 } })
})

test.each([401, 403, 500])(
  'a call that the provider answers with %i although it accepts the key does not pause the comparison',
  async (status) => {
    await using shop = await openModelComparisonLab(
      async (ask) => {
        await ask()
        await ask()
        return failed
      },
      // The first call of the first trial is well; the second fails as often as it is tried, and no more.
      { ...script, faults: [{ times: 1 }, { status, times: status === 500 ? 2 : 1 }] },
    )
    const { body } = await shop.create({ models: shop.models, concurrency: 1 })
    await shop.work()
    expect(await shop.read(body.id)).toMatchObject({ state: 'completed', trials: { failed: 5, errored: 0 } })
  },
)

test('a failing provider is retried twice, then the trial is errored and not scored', async () => {
  await using shop = await openModelComparisonLab(
    async (ask) => {
      await ask()
      return failed
    },
    { ...script, faults: [{ status: 500, times: 10_000 }] },
  )
  const { body } = await shop.create({ models: shop.models })
  await shop.work()
  const [trial] = await shop.trials(body.id)
  expect(trial).toMatchObject({ state: 'errored', class: 'provider_error', retries: 2, reward: null })
  expect((await shop.read(body.id)).settings[0]).toMatchObject({ tasks: 0, accuracy: null })
})

test('an exhausted account of unknown cause excuses a trial twice; then the trial is scored', async () => {
  await using shop = await openModelComparisonLab(
    async (ask) => {
      await ask()
      await ask()
      return failed
    },
    // Of each attempt: a call that is well, one that is refused as often as it is tried, and the gateway's own.
    { ...script, faults: Array.from({ length: 15 }, () => [{}, { status: 429, times: 2 }, {}]).flat() },
  )
  const { body } = await shop.create({ models: shop.models, concurrency: 1 })
  await shop.work()
  expect(await shop.read(body.id)).toMatchObject({ state: 'completed', trials: { failed: 5, errored: 0 } })
  for (const trial of await shop.trials(body.id))
    expect(trial).toMatchObject({ state: 'failed', class: 'agent_exit', retries: 2, reward: 0 })
})

test('a model unknown to the provider is an operator error and is not retried', async () => {
  await using shop = await openModelComparisonLab(
    async (ask) => {
      await ask()
      return failed
    },
    { ...script, models: ['another'] },
  )
  const { body } = await shop.create({ models: shop.models })
  await shop.work()
  const [trial] = await shop.trials(body.id)
  expect(trial).toMatchObject({ state: 'errored', class: 'operator_error', retries: 0 })
})

test('the spend of a failed attempt is counted exactly once', async () => {
  let count = 0
  await using shop = await openModelComparisonLab(async (ask) => {
    await ask()
    count += 1
    return count === 1 ? { state: 'errored', class: 'sandbox_error', reward: null, error: 'It broke.' } : passed
  }, script)
  const { body } = await shop.create({ models: shop.models })
  await shop.work()
  const status = await shop.read(body.id)
  expect(status.costUsd).toBeCloseTo(6 * CALL_USD, 6)
  expect(status.settings[0].totalCostUsd).toBeCloseTo(6 * CALL_USD, 6)
  const costs = (await shop.trials(body.id)).map(({ costUsd, retriesCostUsd, usage }: ComparisonTrial) => [
    ...[costUsd, retriesCostUsd, usage?.output],
  ])
  expect(costs.sort()).toEqual([...Array(4).fill([CALL_USD, 0, 50]), [2 * CALL_USD, CALL_USD, 100]])
})

test('the spend of a canceled trial is shown immediately and counted once by the sweep', async () => {
  await using shop = await openModelComparisonLab(async (ask, order) => {
    await ask()
    if (shop.engine.orders[0] === order) await shop.cancel(id)
    return passed
  }, script)
  const { body } = await shop.create({ models: shop.models, concurrency: 1 })
  const id: string = body.id
  await shop.work()
  expect(await shop.read(id)).toMatchObject({ state: 'canceled', costUsd: CALL_USD, pendingUsd: 0 })
  const counted = () =>
    shop.app.database.pool.query('select sum(spent_micros)::int as spent from trial_counts').then(({ rows }) => rows)
  expect(await counted()).toEqual([{ spent: 0 }])
  await shop.app.database.db
    .updateTable('gateway_grants')
    .set({ closed_at: new Date(Date.now() - 3_600_000) })
    .execute()
  await countLateSpend(shop.app.database.db)
  await countLateSpend(shop.app.database.db)
  expect(await counted()).toEqual([{ spent: CALL_USD * 1e6 }])
  expect((await shop.read(id)).costUsd).toBeCloseTo(CALL_USD, 6)
})
