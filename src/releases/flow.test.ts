import { expect, test } from 'vitest'
import { comparingModelsInRepository } from '../../test/support/model-comparing.ts'
import { releaser } from '../../test/support/releases.ts'
import { inRepository } from '../comparisons/schema.ts'
import { connectRepository } from '../repos/schema.ts'
import { readResults } from '../results/schema.ts'

const USAGE = { input: 1000, output: 100 }
const script = { tasks: [{ match: 'Work', turns: [{ say: 'Done.', usage: USAGE }] }] }
const idAt = (level: string) => `anthropic/claude-sonnet-5|claude-code|${level}`

test('from imported tasks through a comparison with metered calls to what everybody reads', async () => {
  await using lab = await comparingModelsInRepository(async (ask, { task, model }) => {
    await ask()
    const isHigh = model?.access.level === 'high'
    if (isHigh) await ask()
    const passes = isHigh || !task.name.includes('two')
    return { state: passes ? 'passed' : 'failed', class: 'verified', reward: passes ? 1 : 0 }
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

  const releases = releaser(app, place)
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
    disclosure: { attempts: { min: 2, max: 2 }, verifyModes: ['workspace'], sandboxes: ['local'] },
    prices: { models: [{ catalogId: 'anthropic/claude-sonnet-5', prices: { input: 2, output: 10 } }] },
  })

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
  expect((await releases.publishAll()).status).toBe(201)
})
