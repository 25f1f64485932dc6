import { randomInt, randomUUID } from 'node:crypto'
import type { TestContext } from 'vitest'
import type { Fleet, KillTarget } from './fleet.ts'
import { patientUser } from './patient.ts'
import { type Storm, storm, until } from './storm.ts'

const SEED_NAME = 'ASSAY_TEST_SEED'
export const SEED = Number(process.env[SEED_NAME] ?? randomInt(2 ** 31))

export type SurvivalPlan = { tasks: number; attempts: number }

/** Each attempt is one trial of the reference solution and one of the no-op. */
export const countTrials = ({ tasks, attempts }: SurvivalPlan): number => tasks * 2 * attempts

/** Runs a comparison of oracle and nop while processes are killed. Expects one result of every trial. */
export async function expectSurvival(
  { expect, onTestFailed }: TestContext,
  fleet: Fleet,
  plan: SurvivalPlan,
  victims: readonly KillTarget[],
): Promise<Storm> {
  const trials = countTrials(plan)
  onTestFailed(() => console.error(`To repeat these kills, set ${SEED_NAME}=${SEED}`))
  const startedAt = Date.now()
  const user = patientUser(fleet)
  const id = randomUUID()
  // The first start answers requests shortly before its first key exists.
  await Promise.all(fleet.programs.map((program) => program.ready()))
  await user.addBenchmark()
  await user.create({ id, attempts: plan.attempts, sandbox: fleet.sandbox })
  const stormed = await storm(fleet, user, { id, trials, victims, seed: SEED })
  const status = await until(user, id, ({ state }) => state === 'completed')
  const seconds = Math.round((Date.now() - startedAt) / 1000)

  const found = await user.trials(id)
  console.log(
    JSON.stringify({ seed: SEED, seconds, ...stormed, sandboxes: stormed.sandboxes.size, trials: status.trials }),
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
  return stormed
}
