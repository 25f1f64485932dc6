import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { openModelComparisonLab } from '../../test/support/model-comparing.ts'
import type { Db } from '../platform/db/db.ts'
import { reapDead } from '../platform/jobs/sql.ts'
import type { AgentHandover } from '../trials/agent-handover.ts'

const script = { tasks: [{ match: 'Work', turns: [{ say: 'Done.', usage: { input: 1000, output: 50 } }] }] }
const passed = { state: 'passed', class: 'verified', reward: 1, rewards: { reward: 1 } } as const
const UNLUCKY = 'assay/greet-in-bash'
const MINUTE_MS = 60_000

test('time during which no worker attended an agent does not count', async () => {
  const adopted: AgentHandover['agent'][] = []
  await using lab = await openModelComparisonLab(async (ask, { task, handover }) => {
    await ask()
    if (task.name !== UNLUCKY || !handover) return passed
    if (handover.agent) adopted.push(handover.agent)
    if (adopted.length === 2) return passed
    await handover.onAdoptable('sandbox')
    await loseWorker(lab.app.database.db)
    await handover.onAdoptable('sandbox') // fails: the worker notices that its lease is lost
    throw new Error('The worker is dead.')
  }, script)
  const { body } = await lab.create({ models: lab.models })
  await lab.work()

  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { errored: 0 } })
  expect(adopted).toMatchObject([{ sandboxId: 'sandbox' }, { sandboxId: 'sandbox' }])
  const minutes = adopted.map((agent) =>
    [agent?.elapsedMs, agent?.unattendedMs].map((ms) => Math.floor((ms ?? Number.NaN) / MINUTE_MS)),
  )
  // The agent worked for two minutes before each death, and waited for ten minutes after it.
  expect(minutes).toEqual([
    [2, 10],
    [4, 20],
  ])
})

/** Takes the running jobs away from their worker, as if it had died ten minutes ago, two minutes after it began. */
async function loseWorker(db: Db): Promise<void> {
  await sql`update running_agents set started_at = started_at - interval '12 minutes'`.execute(db)
  await sql`update jobs set leased_until = now() - interval '10 minutes' where state = 'running'`.execute(db)
  await reapDead(db)
}
