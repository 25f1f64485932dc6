import { randomInt, randomUUID } from 'node:crypto'
import { describe, type TestContext, test, vi } from 'vitest'
import { isLongRun, postgresFolder } from '../support/parts.ts'
import { type Fleet, startParts, startServe } from './fleet.ts'
import { findLeftovers } from './leftovers.ts'
import { patientUser } from './patient.ts'
import { storm, until } from './storm.ts'

// Generous, because the machine may be slow.
vi.setConfig({ testTimeout: 3_600_000 })

const SEED_NAME = 'ASSAY_TEST_SEED'
const seed = Number(process.env[SEED_NAME] ?? randomInt(2 ** 31))
type KillPlan = { tasks: number; attempts: number; kills: number }
const parts: KillPlan = isLongRun() ? { tasks: 30, attempts: 5, kills: 100 } : { tasks: 5, attempts: 4, kills: 6 }
const whole: KillPlan = isLongRun() ? { tasks: 10, attempts: 5, kills: 20 } : { tasks: 5, attempts: 2, kills: 2 }
const countTrials = ({ tasks, attempts }: KillPlan): number => tasks * 2 * attempts
const describePlan = (plan: KillPlan): string =>
  `${plan.kills} times in ${countTrials(plan)} trials: each is scored once`

// Concurrent in a short run, which mostly waits for the leases of killed workers to expire.
describe('a comparison completes and leaves nothing behind despite kill -9', { concurrent: !isLongRun() }, () => {
  test(`of API, workers and database, ${describePlan(parts)}`, async (context) => {
    await using fleet = await startParts(postgresFolder() ?? '', parts.tasks)
    await expectSurvival(context, fleet, parts)
  })

  test(`of serve and its database, ${describePlan(whole)}`, async (context) => {
    await using fleet = await startServe(whole.tasks)
    await expectSurvival(context, fleet, whole)
  })
})

async function expectSurvival({ expect, onTestFailed }: TestContext, fleet: Fleet, plan: KillPlan): Promise<void> {
  const trials = countTrials(plan)
  onTestFailed(() => console.error(`To repeat these kills, set ${SEED_NAME}=${seed}`))
  const startedAt = Date.now()
  const user = patientUser(fleet)
  const id = randomUUID()
  // The first start answers requests shortly before its first key exists.
  await Promise.all(fleet.programs.map((program) => program.ready()))
  await user.addBenchmark()
  await user.create({ id, attempts: plan.attempts })
  const stormed = await storm(fleet, user, { id, trials, kills: plan.kills, seed })
  const status = await until(user, id, ({ state }) => state === 'completed')
  const seconds = Math.round((Date.now() - startedAt) / 1000)

  const found = await user.trials(id)
  console.log(
    JSON.stringify({ seed, seconds, ...stormed, sandboxes: stormed.sandboxes.size, trials: status.trials }),
    fleet.programs.flatMap(({ failedStarts }) => failedStarts),
  )
  expect(found.filter(({ state }) => !['passed', 'failed'].includes(state))).toEqual([])
  expect(status.trials).toMatchObject({ total: trials, passed: trials / 2, failed: trials / 2, errored: 0, running: 0 })
  expect(new Set(found.map((trial) => `${trial.task.name} ${trial.settingId} ${trial.attempt}`)).size).toBe(trials)
  expect(found.reduce((sum, { costUsd }) => sum + (costUsd ?? Number.NaN), 0)).toBe(status.costUsd)
  expect(status.settings.map(({ tasks, passed }) => ({ tasks, passed }))).toEqual([
    { tasks: plan.tasks, passed: plan.tasks },
    { tasks: plan.tasks, passed: 0 },
  ])
  expect(await fleet.query('select sum(metered)::int as n from trial_counts')).toEqual([{ n: trials }])
  expect(await fleet.query('select type, state from jobs where every_seconds is null')).toEqual([])
  expect(fleet.programs.flatMap(({ collapses }) => collapses)).toEqual([])

  expect(await Promise.all(fleet.programs.map((program) => program.stop()))).toEqual(fleet.programs.map(() => 0))
  const killed = fleet.programs.flatMap((program) => [...program.killed])
  await vi.waitFor(async () => expect(await findLeftovers(fleet.dataFolder, stormed.sandboxes, killed)).toEqual([]), {
    timeout: 10_000,
  })
}
