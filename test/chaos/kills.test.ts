import { describe, type TestContext, test, vi } from 'vitest'
import { isLongRun, postgresFolder } from '../support/parts.ts'
import { type Fleet, startParts, startServe } from './fleet.ts'
import { findLeftovers } from './leftovers.ts'
import { chooseVictims } from './storm.ts'
import { countTrials, expectSurvival, SEED, type SurvivalPlan } from './survival.ts'

// Generous, because the machine may be slow.
vi.setConfig({ testTimeout: 3_600_000 })

type KillPlan = SurvivalPlan & { kills: number }
const parts: KillPlan = isLongRun() ? { tasks: 30, attempts: 5, kills: 100 } : { tasks: 5, attempts: 4, kills: 6 }
const whole: KillPlan = isLongRun() ? { tasks: 10, attempts: 5, kills: 20 } : { tasks: 5, attempts: 2, kills: 2 }
const describePlan = (plan: KillPlan): string =>
  `${plan.kills} times in ${countTrials(plan)} trials: each is scored once`

// Concurrent in a short run, which mostly waits for the leases of killed workers to expire.
describe('a comparison completes and leaves nothing behind despite kill -9', { concurrent: !isLongRun() }, () => {
  test(`of API, workers and database, ${describePlan(parts)}`, async (context) => {
    await using fleet = await startParts(postgresFolder() ?? '', parts.tasks)
    await expectAllScored(context, fleet, parts)
  })

  test(`of serve and its database, ${describePlan(whole)}`, async (context) => {
    await using fleet = await startServe(whole.tasks)
    await expectAllScored(context, fleet, whole)
  })
})

async function expectAllScored(context: TestContext, fleet: Fleet, plan: KillPlan): Promise<void> {
  const { sandboxes } = await expectSurvival(context, fleet, plan, chooseVictims(fleet, plan.kills, SEED))
  const killed = fleet.programs.flatMap((program) => [...program.killed])
  const findLeft = () => findLeftovers(fleet.dataFolder, sandboxes, killed)
  await vi.waitFor(async () => context.expect(await findLeft()).toEqual([]), { timeout: 10_000 })
}
