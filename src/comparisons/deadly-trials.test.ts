import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { openModelComparisonLab } from '../../test/support/model-comparing.ts'
import type { Db } from '../platform/db/db.ts'
import { reapDead } from '../platform/jobs/sql.ts'
import type { ComparisonTrial } from './shapes/schema.ts'

const script = { tasks: [{ match: 'Work', turns: [{ say: 'Done.', usage: { input: 1000, output: 50 } }] }] }
const passed = { state: 'passed', class: 'verified', reward: 1, rewards: { reward: 1 } } as const
const UNLUCKY = 'assay/greet-in-bash'

test('a trial that ends its worker four times scores 0, and three times costs nothing', async () => {
  for (const [deaths, end] of [
    [4, { state: 'failed', class: 'agent_exit', reward: 0, retries: 0 }],
    [3, { state: 'passed', class: 'verified', reward: 1, retries: 0 }],
  ] as const) {
    let left: number = deaths
    await using shop = await openModelComparisonLab(async (ask, { task }) => {
      await ask()
      if (task.name !== UNLUCKY || left === 0) return passed
      left -= 1
      return loseWorker(shop.app.database.db)
    }, script)
    const { body } = await shop.create({ models: shop.models })
    await shop.work()
    expect(await shop.read(body.id)).toMatchObject({ state: 'completed', trials: { errored: 0 } })
    const trial = (await shop.trials(body.id)).find(({ task }: ComparisonTrial) => task.name === UNLUCKY)
    expect(trial).toMatchObject(end)
    expect(trial.explanation ?? '').toMatch(
      deaths === 4 ? /^The worker died 4 times while this trial was running/ : /^$/,
    )
    expect(left).toBe(0)
  }
})

/** Takes the running jobs away from their worker, as if it had died. */
async function loseWorker(db: Db): Promise<never> {
  await sql`update jobs set leased_until = now() - interval '1 s' where state = 'running'`.execute(db)
  await reapDead(db)
  throw new Error('The worker is dead.')
}
