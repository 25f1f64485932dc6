import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { testApp } from '../support/app.ts'
import { openComparisonLab } from '../support/comparisons.ts'
import { startProgram } from '../support/program.ts'

const PROCESS = new URL('../support/comparison-process.ts', import.meta.url).pathname
const HOLD_MS = '300'

test('killing a worker during a comparison loses no trial and uses up no retry', async () => {
  await using app = await testApp()
  const lab = await openComparisonLab(app)
  const env = {
    DATABASE_URL: app.database.url,
    ASSAY_DATA: app.tools.config.dataFolder,
    ASSAY_DATABASE_CONNECTIONS: '6',
    ASSAY_REGISTRIES: 'samples',
  }
  const start = (role: string) => startProgram(PROCESS, [role, HOLD_MS], env)
  const programs = await Promise.all([start('submit'), start('work'), start('work')])
  const [, victim] = programs
  try {
    const { body } = await lab.create({ attempts: 10 })
    const reached = async (count: number) => {
      for (;;) {
        const { state, trials } = await lab.read(body.id)
        if (trials.passed >= count || state === 'completed') return trials
        await wait(100)
      }
    }
    await reached(20)
    await victim.kill('SIGKILL')
    expect(await reached(100)).toMatchObject({ total: 100, passed: 100, queued: 0, running: 0, errored: 0 })
    const { rows } = await app.database.pool.query('select max(retries) as retries, count(*)::int as n from trials')
    expect(rows).toEqual([{ retries: 0, n: 100 }])
    const { rows: counted } = await app.database.pool.query('select sum(tasks)::int as tasks from trial_counts')
    expect(counted).toEqual([{ tasks: 10 }])
  } finally {
    await Promise.all(programs.map((program) => program.kill('SIGKILL')))
  }
})
