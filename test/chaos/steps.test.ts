import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { sandboxJobs, serviceJobs } from '../../src/app.ts'
import { STEPS } from '../../src/comparisons/state.ts'
import { startWorker } from '../../src/platform/jobs/worker.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { type ComparisonLab, openComparisonLab } from '../support/comparisons.ts'

vi.setConfig({ testTimeout: 300_000 })

const WORKER = new URL('./dying-worker.ts', import.meta.url).pathname
const LEASE_MS = 1000
const TRIALS = 10

/** Every step at its first occurrence, and steps of a trial also in the last trial. */
const CASES = STEPS.flatMap((step) =>
  (step.startsWith('trial.') ? [1, TRIALS] : [1]).map((time) => [step, time] as const),
)

let app: TestApp
let lab: ComparisonLab
beforeAll(async () => {
  app = await testApp()
})
// Reset for each case: worker capabilities expire, and calibrations are cached.
beforeEach(async () => {
  lab = await openComparisonLab(app)
  await app.database.pool.query('delete from task_calibrations')
})
afterAll(() => app[Symbol.asyncDispose]())

test.each(CASES)('a comparison completes after its worker is killed at step %s, occurrence %i', async (step, time) => {
  const { body } = await lab.create()
  expect(await dieAt(step, time)).toBe('SIGKILL')

  await using _successor = startSuccessor()
  await vi.waitUntil(() => isCompleted(body.id), { timeout: 120_000, interval: 50 })

  expect(await lab.read(body.id)).toMatchObject({
    trials: { total: TRIALS, queued: 0, running: 0, passed: 5, failed: 5, errored: 0, canceled: 0 },
    settings: [
      { tasks: 5, passed: 5 },
      { tasks: 5, passed: 0 },
    ],
  })
  const trials: { task: { name: string }; settingId: string; retries: number }[] = await lab.trials(body.id)
  expect(new Set(trials.map(({ task, settingId }) => `${task.name} ${settingId}`)).size).toBe(TRIALS)
  expect(trials.filter(({ retries }) => retries > 0)).toEqual([])
  const { rows: counted } = await app.database.pool.query(
    `select sum(metered)::int as n from trial_counts join comparisons on key = comparison where id = '${body.id}'`,
  )
  expect(counted).toEqual([{ n: TRIALS }])
  const { rows: left } = await app.database.pool.query('select type, state from jobs where every_seconds is null')
  expect(left).toEqual([])
})

/** Returns true if the worker was killed. Periodic work runs immediately. */
async function isCompleted(id: string): Promise<boolean> {
  await app.database.pool.query(`update jobs set run_at = now() where type = 'comparisons.end' and state = 'queued'`)
  return (await lab.read(id)).state === 'completed'
}

async function dieAt(step: string, time: number): Promise<NodeJS.Signals | null> {
  const env = { ...process.env, DATABASE_URL: app.database.url, ASSAY_DATA: app.tools.config.dataFolder }
  const child = spawn(process.execPath, [WORKER, step, String(time), String(LEASE_MS)], {
    env: { ...env, ASSAY_REGISTRIES: 'samples', ASSAY_DATABASE_CONNECTIONS: '4' },
    stdio: ['ignore', 'ignore', 'pipe'],
    // Fails if the step is never reached.
    timeout: 120_000,
  })
  const [said, [code, signal]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  if (signal !== 'SIGKILL') throw new Error(`The worker did not pass ${step}: ${code ?? signal} ${said}`)
  return signal
}

function startSuccessor(): AsyncDisposable {
  const { tools } = lab
  const handlers = [...serviceJobs(tools), ...sandboxJobs(tools, 'local')]
  const { log } = tools
  const worker = startWorker({ database: app.database, handlers, slots: 4, log, leaseMs: LEASE_MS })
  return { [Symbol.asyncDispose]: () => worker.stop(1000) }
}
