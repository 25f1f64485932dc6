import { expect, test } from 'vitest'
import { testApp } from '../../test/support/app.ts'
import { createScriptedEngine, openComparisonLab } from '../../test/support/comparisons.ts'

test('trials receive the paths of the calibration, and a calibration by older rules is repeated', async () => {
  await using own = await testApp()
  const engine = createScriptedEngine((request) => ({ verifyMode: request.verifySettings.mode }))
  const { calibrate } = engine
  engine.calibrate = async (request, watch) => {
    const found = await calibrate(request, watch)
    return found.kind === 'fit' ? { ...found, mode: 'snapshot', carried: ['/srv/work', "/srv/it's"] } : found
  }
  const lab = await openComparisonLab(own, engine)
  await lab.create()
  await lab.work()
  expect(engine.orders).toHaveLength(10)
  for (const { verifySettings } of engine.orders)
    expect(verifySettings).toMatchObject({ mode: 'snapshot', carried: ['/srv/work', "/srv/it's"] })
  await lab.create({ skipCompleted: true })
  await lab.work()
  expect([engine.calibrations.length, engine.orders.length]).toEqual([5, 10])
  await own.tools.database.db.updateTable('task_calibrations').set({ rules: 1 }).execute()
  await lab.create({ skipCompleted: true })
  await lab.work()
  expect([engine.calibrations.length, engine.orders.length]).toEqual([10, 20])
})

test('trials that were graded by older rules are not reused', async () => {
  await using own = await testApp()
  const engine = createScriptedEngine()
  const lab = await openComparisonLab(own, engine)
  await lab.create()
  await lab.work()
  await own.tools.database.db.updateTable('task_calibrations').set({ rules: 1 }).execute()
  await lab.create()
  await lab.work()
  expect([engine.calibrations.length, engine.orders.length]).toEqual([10, 20])

  const { body } = await lab.create({ skipCompleted: true, attempts: 2 })
  await lab.work()
  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { total: 20, reused: 10 } })
  expect(engine.orders).toHaveLength(30)
})
