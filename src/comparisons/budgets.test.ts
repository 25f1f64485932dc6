import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModelComparisonLab } from '../../test/support/model-comparing.ts'
import type { Comparison, ComparisonSetting, ComparisonTrial } from './shapes/schema.ts'
import { countLateSpend } from './trials/spend.ts'

const passed = { state: 'passed', class: 'verified', reward: 1, rewards: { reward: 1 } } as const
const failed = { state: 'failed', class: 'agent_exit', reward: 0, rewards: { reward: 0 } } as const
const broken = { state: 'errored', class: 'sandbox_error', reward: null, error: 'It broke.' } as const

/** Numbers that look random and are the same in each run. */
let state = 7
const random = (below: number): number => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0
  return Math.floor((state / 2 ** 32) * below)
}

type Shop = Awaited<ReturnType<typeof openModelComparisonLab>>
let shop: Shop
let check: ((id: string) => Promise<void>) | undefined
let comparison = ''
beforeAll(async () => {
  // Agents make up to three calls, and some of their sandboxes break.
  shop = await openModelComparisonLab(async (ask) => {
    for (let calls = random(4); calls >= 0; calls -= 1) {
      await ask()
      await check?.(comparison)
    }
    return random(4) === 0 ? broken : random(2) ? passed : failed
  })
})
afterAll(() => shop[Symbol.asyncDispose]())

const sum = (values: (number | null)[]): number =>
  Math.round(values.reduce<number>((all, value) => all + (value ?? 0), 0) * 1e6)

/** Every view of a comparison, in micro-dollars. */
async function viewsOf(id: string) {
  const status: Comparison = await shop.read(id)
  const trials: ComparisonTrial[] = (await shop.trials(id)).filter(
    ({ reusedFrom }: ComparisonTrial) => reusedFrom === undefined,
  )
  const calls = await Promise.all(
    trials.map(
      async (trial) => (await shop.app.call(shop.endpoints.calls, shop.at(id, { trialId: trial.id }))).body.calls,
    ),
  )
  const { rows } = await shop.app.database.pool.query(
    `select spent_micros - pending_micros as settled, pending_micros as pending from gateway_budgets
     where id = (select 'comparison ' || key from comparisons where id = $1)`,
    [id],
  )
  return {
    costs: [
      sum([status.costUsd]),
      sum(status.settings.map(({ costUsd }: ComparisonSetting) => costUsd)),
      sum(trials.map(({ costUsd }) => costUsd)),
      sum(calls.flat().map(({ costUsd }: { costUsd: number | null }) => costUsd)),
      rows[0].settled,
    ],
    pending: [
      sum([status.pendingUsd]),
      sum(status.settings.map(({ pendingUsd }: ComparisonSetting) => pendingUsd)),
      sum(trials.map(({ pendingUsd }) => pendingUsd)),
      sum(calls.flat().map(({ pendingUsd }: { pendingUsd: number }) => pendingUsd)),
      rows[0].pending,
    ],
    status,
    trials,
  }
}

// Before any trial has shown what one costs.
test('a trial cut off by the budget is queued unscored, its spend counts, and it finishes after the budget is raised', async () => {
  const { body } = await shop.create({ models: shop.models, budgetUsd: 0.006 })
  await shop.work()
  const { status, trials } = await viewsOf(body.id)
  expect(status).toMatchObject({ state: 'paused', pause: { reason: 'budget' }, trials: { queued: 5 } })
  expect(status.pause?.message).toContain('cut off')
  const [spent] = trials.filter(({ costUsd }) => costUsd !== null)
  expect(spent).toMatchObject({ state: 'queued', class: null, reward: null, retries: 0, costUsd: status.costUsd })
  expect(status.costUsd).toBeGreaterThan(0)
  expect(status.costUsd).toBeLessThanOrEqual(0.006)
  await shop.resume(body.id, { budgetUsd: 5 })
  await shop.work()
  expect(await shop.read(body.id)).toMatchObject({ state: 'completed', trials: { queued: 0 } })
})

test('all views agree on the cost at every point of random histories with retries, reuse and cancellations', async () => {
  let checks = 0
  check = async (id) => {
    const { costs, pending } = await viewsOf(id)
    expect(costs).toEqual(costs.map(() => costs[0]))
    expect(pending).toEqual(pending.map(() => pending[0]))
    checks += 1
  }
  for (let history = 0; history < 4; history += 1) {
    const { body } = await shop.create({ models: shop.models, attempts: 1 + random(2), skipCompleted: history > 1 })
    comparison = body.id
    await shop.work()
    if (history === 1) await shop.cancel(comparison)
    if (random(2)) await shop.resume(comparison)
    await shop.work()
    await countLateSpend(shop.app.database.db)
    await check(comparison)
    const { status, trials } = await viewsOf(comparison)
    const { evaluations } = await shop.app.call(shop.endpoints.list, { params: shop.params }).then(({ body }) => body)
    expect(evaluations.find(({ id }: Comparison) => id === comparison)?.costUsd).toBe(status.costUsd)
    const scored = trials.filter(({ state, attempt }) => attempt === 1 && (state === 'passed' || state === 'failed'))
    if (scored.length * status.settings.length === status.settings[0]?.tasks && status.attempts === 1)
      expect(sum([status.settings[0].totalCostUsd])).toBe(sum(scored.map(({ costUsd }) => costUsd)))
  }
  expect(checks).toBeGreaterThan(20)
  check = undefined
})

/** `ASSAY_TEST_LONG=1` tries many more. */
const BUDGETS = process.env.ASSAY_TEST_LONG === '1' ? 1000 : 12

test(`${BUDGETS} random budgets of a comparison are never exceeded, and no trial that they cut off is scored`, async () => {
  const seen = { paused: 0, completed: 0, cutOff: 0 }
  for (let count = 0; count < BUDGETS; count += 1) {
    // A call costs about a hundredth of a dollar.
    const budgetUsd = random(150_000) / 1e6
    check = async (id) => {
      const { costUsd, pendingUsd }: Comparison = await shop.read(id)
      expect(sum([costUsd, pendingUsd])).toBeLessThanOrEqual(sum([budgetUsd]))
    }
    await shop.offer()
    const { body } = await shop.create({ models: shop.models, budgetUsd })
    comparison = body.id
    await shop.work()
    await check(comparison)
    const status: Comparison = await shop.read(comparison)
    const { costUsd, trials, pause } = status
    expect(sum([costUsd])).toBeLessThanOrEqual(sum([budgetUsd]))
    expect(trials).toMatchObject({ running: 0, total: 5 })
    expect([status.state, pause?.reason]).toEqual(trials.queued > 0 ? ['paused', 'budget'] : ['completed', undefined])
    seen[trials.queued > 0 ? 'paused' : 'completed'] += 1
    if (pause?.message.includes('cut off')) seen.cutOff += 1
  }
  expect(Math.min(seen.paused, seen.completed, seen.cutOff)).toBeGreaterThan(0)
  check = undefined
}, 3_600_000)

test('a budget of one micro-dollar starts nothing and reports the reason', async () => {
  const before = shop.engine.orders.length
  const { body } = await shop.create({ models: shop.models, budgetUsd: 0.000001 })
  await shop.work()
  expect(await shop.read(body.id)).toMatchObject({
    state: 'paused',
    costUsd: 0,
    trials: { queued: 5, running: 0 },
    pause: { reason: 'budget', message: expect.stringContaining('does not cover another trial') },
  })
  expect(shop.engine.orders).toHaveLength(before)
})
