import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { generationJobs, sandboxJobs, serviceJobs } from '../../src/app.ts'
import { startWorker } from '../../src/platform/jobs/worker.ts'
import { BATCH_STEPS } from '../../src/taskgen/pipeline/stage.ts'
import { openModelGenerationLab } from '../support/generating-models.ts'
import { askingStages } from '../support/taskgen/asking-stages.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

const WORKER = new URL('./dying-batch-worker.ts', import.meta.url).pathname
const LEASE_MS = 1000
const TASKS = 2

/** Every step at its first occurrence, and steps of a stage also later, when models are called. */
const CASES = BATCH_STEPS.flatMap((step) =>
  (/^stage\.(?!granted)/.test(step) ? [1, 7] : [1]).map((time) => [step, time] as const),
)

let lab: Awaited<ReturnType<typeof openModelGenerationLab>>
beforeAll(async () => {
  lab = await openModelGenerationLab({ easy: TASKS, medium: 0, hard: 0 }, askingStages())
})
afterAll(() => lab[Symbol.asyncDispose]())
beforeEach(async () => {
  await lab.offer()
  // Results of the previous case are not cached here.
  await lab.app.database.pool.query('delete from gateway_grants')
  await lab.app.database.pool.query('delete from batch_stage_results')
})

test.each(CASES)('a batch completes after its worker is killed at step %s, occurrence %i', async (step, time) => {
  const { runId } = (await lab.create({ easy: TASKS }, { again: true })).body
  expect(await dieAt(step, time)).toBe('SIGKILL')

  await using _successor = startSuccessor()
  await vi.waitUntil(async () => (await lab.read(runId)).state === 'completed', { timeout: 120_000, interval: 50 })

  const run = await lab.read(runId)
  expect(run).toMatchObject({ counts: { ready: TASKS, rejected: 0, deferred: 0 }, shortfall: 0 })
  const tasks: { pullRequest: { number: number } }[] = await lab.tasks(runId)
  expect(tasks.map(({ pullRequest }) => pullRequest.number).toSorted()).toEqual([1, 2])
  const { spent, uncounted, grants } = await lab.grants()
  expect(uncounted).toBe(0)
  expect(grants).toBeGreaterThanOrEqual(2 * TASKS)
  expect(Math.round(run.costUsd * 1e6)).toBe(spent)
  const { rows: left } = await lab.app.database.pool.query('select type, state from jobs where every_seconds is null')
  expect(left).toEqual([])
})

async function dieAt(step: string, time: number): Promise<NodeJS.Signals | null> {
  const { app, gateway } = lab
  const { config } = app.tools
  const env = { ...process.env, DATABASE_URL: app.database.url, ASSAY_DATA: config.dataFolder }
  const child = spawn(process.execPath, [WORKER, step, String(time), String(LEASE_MS)], {
    env: { ...env, ASSAY_GIT_ALLOW: app.root, ASSAY_GATEWAY_URL: gateway.url, ASSAY_DATABASE_CONNECTIONS: '4' },
    stdio: ['ignore', 'ignore', 'pipe'],
    // Fails if the step is never reached.
    timeout: 120_000,
  })
  const [said, [code, signal]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  if (signal !== 'SIGKILL') throw new Error(`The worker did not pass ${step}: ${code ?? signal} ${said}`)
  return signal
}

function startSuccessor(): AsyncDisposable {
  const { tools, app } = lab
  const handlers = [...serviceJobs(tools), ...generationJobs(tools), ...sandboxJobs(tools, 'local')]
  const worker = startWorker({ database: app.database, handlers, slots: 2, log: tools.log, leaseMs: LEASE_MS })
  return { [Symbol.asyncDispose]: () => worker.stop(1000) }
}
