import { expect, test } from 'vitest'
import { openRepositoryModelComparisonLab } from '../../test/support/model-comparing.ts'
import { createReleaseClient } from '../../test/support/releases.ts'
import { inRepository } from '../comparisons/schema.ts'
import { connectRepository } from '../repos/schema.ts'
import { readResults } from '../results/schema.ts'

const USAGE = { input: 1000, output: 100 }
const script = { tasks: [{ match: 'Work', turns: [{ say: 'Done.', usage: USAGE }] }] }
const idAt = (level: string) => `anthropic/claude-sonnet-5|claude-code|${level}`

type TokenCounts = Record<'input' | 'cacheRead' | 'cacheWrite' | 'output', number>
type Rates = { input: number; output: number; cacheRead?: number; cacheWrite5m?: number }

/** The sum that docs/statistics.md gives to readers. */
const repriced = (tokens: TokenCounts, { input, output, cacheRead = input, cacheWrite5m = input }: Rates): number =>
  (tokens.input * input + tokens.cacheRead * cacheRead + tokens.cacheWrite * cacheWrite5m + tokens.output * output) /
  1_000_000

test('imported tasks lead through a metered comparison to public results', async () => {
  await using lab = await openRepositoryModelComparisonLab(async (ask, { task, model }) => {
    await ask()
    const isHigh = model?.access.level === 'high'
    if (isHigh) await ask()
    const passes = isHigh || !task.name.includes('two')
    const resources = isHigh ? { cpus: 4, memoryMb: null, diskMb: 10_240 } : { cpus: 1, memoryMb: 6144, diskMb: 10_240 }
    return { resources, state: passes ? 'passed' : 'failed', class: 'verified', reward: passes ? 1 : 0 }
  }, script)
  const { app } = lab
  const place = lab.repository.place
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  await app.call(connectRepository, { params: place, body: { source, visibility: 'public' } })
  const [choice] = lab.models
  const models = ['low', 'high'].map((reasoningLevel) => ({ ...choice, reasoningLevel }))
  const { body: comparison, status } = await lab.create({ models, attempts: 2 })
  expect(status, JSON.stringify(comparison)).toBe(202)
  await lab.work()
  expect((await lab.read(comparison.id)).state).toBe('completed')

  const releases = createReleaseClient(app, place)
  const first = await releases.publishAll()
  expect(first.status, first.text).toBe(201)
  // 2 dollars for a million of input and 10 of output: 3000 micro-dollars for a call.
  expect(first.body).toMatchObject({
    tasks: 5,
    settings: [
      {
        id: idAt('high'),
        tasks: 5,
        passed: 5,
        accuracy: 100,
        costPerTaskUsd: 0.006,
        totalCostUsd: 0.03,
        onFrontier: true,
      },
      {
        id: idAt('low'),
        tasks: 5,
        passed: 4,
        accuracy: 80,
        costPerTaskUsd: 0.003,
        totalCostUsd: 0.015,
        onFrontier: true,
      },
    ],
    frontier: [idAt('low'), idAt('high')],
    disclosure: {
      attempts: { min: 2, max: 2 },
      verifyModes: ['workspace'],
      sandboxes: ['local'],
      resources: {
        cpus: { min: 1, max: 4 },
        memoryMb: { min: 6144, max: null },
        diskMb: { min: 10_240, max: 10_240 },
      },
    },
  })
  const grants = await app.database.pool.query(
    'select min(created_at) as from, max(created_at) as to from gateway_grants',
  )
  const [{ from, to }] = grants.rows
  const [{ prices, ...frozen }, ...others] = first.body.prices.models
  expect(frozen.catalogId).toBe('anthropic/claude-sonnet-5')
  expect(prices).toMatchObject({ input: 2, output: 10 })
  expect(others).toEqual([])
  // Whoever has other prices can put them in their place.
  for (const { costPerTaskUsd, stats } of first.body.settings)
    expect(repriced(stats.usagePerTask, prices)).toBeCloseTo(costPerTaskUsd, 9)
  for (const moment of [frozen.from, frozen.to, first.body.prices.at]) {
    expect(Date.parse(moment)).toBeGreaterThanOrEqual(from.getTime())
    expect(Date.parse(moment)).toBeLessThanOrEqual(to.getTime())
  }

  const before = await app.call(readResults, { params: place, key: null })
  const [trial] = await lab.trials(comparison.id, { setting: idAt('low'), limit: '1' })
  const voiding = {
    params: { ...place, comparisonId: comparison.id, trialId: trial.id },
    body: { reason: 'A bad clock.' },
  }
  expect((await app.call(inRepository.void, voiding)).status).toBe(200)
  const preview = await releases.preview()
  expect(preview.disclosure.trials).toMatchObject({ run: 10 * 2, voided: 1 })
  const after = await app.call(readResults, { params: place, key: null })
  expect(after.text).toBe(before.text)
  // What a model costs today is not what its trials were counted at: of one trial it was another price.
  await app.database.pool.query(
    `update gateway_grants set terms = jsonb_set(terms, '{prices,input}', '3'), created_at = created_at + interval '1 day'
     where id = (select id from gateway_grants where subject like 'trial %-000000000001' limit 1)`,
  )
  const second = await releases.publishAll()
  expect(second.status).toBe(201)
  expect(second.body.prices.models.map((each: { prices: { input: number } }) => each.prices.input)).toEqual([2, 3])
  expect(second.body.prices.at).toBe(second.body.prices.models[1].to)
})
