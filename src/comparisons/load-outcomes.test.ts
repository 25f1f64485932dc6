import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { openRepositoryComparisonLab } from '../../test/support/comparisons.ts'
import { loadOutcomes } from './trials/trials.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

test('loads reused trials once, with every comparison that used them and every void', async () => {
  const lab = await openRepositoryComparisonLab(app)
  const { db } = app.database
  const original = (await lab.create()).body.id
  await lab.work()
  const repositories = await db.selectFrom('comparisons').select(['repository', 'id']).execute()
  const key = repositories.find(({ id }) => id === original)?.repository ?? 0
  const ran = (await loadOutcomes(db, key)).outcomes

  for (let round = 0; round < 3; round += 1) {
    await lab.create({ skipCompleted: true })
    await lab.work()
  }
  const { outcomes } = await loadOutcomes(db, key)
  const settings = new Set(ran.map(({ setting }) => setting)).size
  expect(outcomes.length).toBe(ran.length + 3 * settings)
  expect(new Set(outcomes.map(({ trial }) => trial))).toEqual(new Set(ran.map(({ trial }) => trial)))
  expect(new Set(outcomes.map(({ comparison }) => comparison)).size).toBe(4)

  const [, , voided] = await lab.trials(original)
  await app.call(lab.endpoints.void, { ...lab.at(original, { trialId: voided.id }), body: { reason: 'no' } })
  const after = (await loadOutcomes(db, key)).outcomes.filter(({ isVoided }) => isVoided)
  expect(new Set(after.map(({ trial }) => trial)).size).toBe(1)
})
