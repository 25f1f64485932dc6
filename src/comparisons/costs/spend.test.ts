import { expect, test } from 'vitest'
import { openModelComparisonLab } from '../../../test/support/model-comparing.ts'
import { readSpend } from './schema.ts'

const USAGE = { input: 1000, output: 100 }
const script = { tasks: [{ match: 'Work', turns: [{ say: 'Done.', usage: USAGE }] }] }

test('spend is counted by day, provider and setting, once, and only for its workspace', async () => {
  await using lab = await openModelComparisonLab(async (ask, { model }) => {
    await ask()
    if (model?.access.level === 'high') await ask()
    return { state: 'passed', reward: 1 }
  }, script)
  const { app } = lab
  const read = async (days?: string) => (await app.call(readSpend, days ? { query: { days } } : {})).body
  const today = new Date().toISOString().slice(0, 10)
  expect(await read('1')).toEqual({ from: today, costUsd: 0, days: [], settings: [] })

  const [choice] = lab.models
  const models = ['low', 'high'].map((reasoningLevel) => ({ ...choice, reasoningLevel }))
  await lab.create({ models })
  await lab.work()
  // 2 dollars for a million of input and 10 of output: 3000 micro-dollars for a call, on five tasks.
  const setting = { label: 'Claude Sonnet 5', harness: 'claude-code', trials: 5 }
  const expected = {
    from: today,
    costUsd: 0.045,
    days: [{ day: today, provider: 'anthropic', costUsd: 0.045 }],
    settings: [
      { ...setting, id: 'anthropic/claude-sonnet-5|claude-code|high', reasoningLevel: 'high', costUsd: 0.03 },
      { ...setting, id: 'anthropic/claude-sonnet-5|claude-code|low', reasoningLevel: 'low', costUsd: 0.015 },
    ],
  }
  expect(await read('1')).toEqual(expected)

  await lab.create({ models, skipCompleted: true })
  await lab.work()
  expect(await read('1')).toEqual(expected)

  await app.database.pool.query(`update gateway_grants set created_at = created_at - interval '40 days'`)
  await app.database.pool.query(`update trials set finished_at = finished_at - interval '40 days'`)
  expect(await read()).toMatchObject({ costUsd: 0, days: [], settings: [] })
  expect(await read('60')).toMatchObject({ costUsd: 0.045 })

  const other = await app.otherWorkspace('elsewhere')
  const { body } = await app.call(readSpend, { params: { org: other.login }, key: other.key, query: { days: '60' } })
  expect(body).toMatchObject({ costUsd: 0, days: [], settings: [] })
  const refused = await app.call(readSpend, { query: { days: '0' } })
  expect(refused.status).toBe(422)
})
