import { expect, test } from 'vitest'
import { openModelComparisonLab } from '../../test/support/model-comparing.ts'
import type { Quote } from './costs/schema.ts'

const USAGE = { input: 1000, cacheRead: 200, cacheWrite5m: 100, cacheWrite1h: 0, output: 50, reasoning: 20 }
const CALL_USD = 0.00279
const script = { tasks: [{ match: 'Work', turns: [{ say: 'Done.', usage: USAGE }] }] }
const passed = { state: 'passed', class: 'verified', reward: 1, rewards: { reward: 1 } } as const

test('a setting that never ran is estimated from catalog prices, and measured once it has run', async () => {
  await using shop = await openModelComparisonLab(async (ask) => {
    await ask()
    return passed
  }, script)
  const reference = { catalogId: 'reference', credentialId: shop.reference, harnesses: ['nop'] }
  const body = shop.body({ models: [...shop.models, reference], trialBudgetUsd: 100, concurrency: 2 })
  const quote = async (): Promise<Quote> => {
    const answer = await shop.app.call(shop.endpoints.quote, { params: shop.params, body: body as never })
    expect(answer.status).toBe(200)
    return answer.body
  }

  const before = await quote()
  // Per trial at level high: 80,000 × 2 + 500,000 × 0.20 + 18,000 × 10 micro-dollars.
  expect(before).toMatchObject({
    tasks: 5,
    trials: 10,
    costUsd: { low: 0.733333, expected: 2.2, high: 6.6 },
    maximumCostUsd: 500,
    concurrency: 2,
    perSetting: [
      { settingId: 'anthropic/claude-sonnet-5|claude-code|high', trials: 5, source: 'estimated', measuredTrials: 0 },
      { settingId: 'reference|nop|none', source: 'free', costUsd: { expected: 0 }, maximumCostUsd: 0 },
    ],
    advice: '5 tasks show differences above 68 points; 3 attempts lower that to 42.',
  })
  expect(before.perSetting.map(({ durationSource }) => durationSource)).toEqual(['estimated', 'estimated'])
  expect(before.durationSeconds).toBe((5 * 630 + 5 * 60) / 2)

  await shop.create({ models: shop.models })
  await shop.work()
  const after = await quote()
  expect(after.perSetting[0]).toMatchObject({ source: 'measured', measuredTrials: 5, durationSource: 'measured' })
  expect(after.perSetting[1]).toMatchObject({ source: 'free', durationSource: 'estimated' })
  expect(after.costUsd.expected).toBeCloseTo(5 * CALL_USD, 6)
  expect(after.durationSeconds).toBeLessThan(before.durationSeconds)
})

test('without a concurrency, the duration assumes eight trials for each worker that offers the sandbox', async () => {
  await using shop = await openModelComparisonLab(async () => passed, script)
  const quote = async (over: object): Promise<Quote> =>
    (
      await shop.app.call(shop.endpoints.quote, {
        params: shop.params,
        body: { models: shop.models, ...over } as never,
      })
    ).body
  for (const over of [{}, { sandbox: 'local' }, { sandbox: 'nowhere' }]) expect((await quote(over)).concurrency).toBe(8)
})
