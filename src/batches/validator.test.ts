import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { smallTask } from '../../test/support/archives.ts'
import { openImportLab } from '../../test/support/batches.ts'
import { openTrialRunner } from '../../test/support/trials/trial-runner.ts'
import { createSandboxValidator } from './validate.ts'

let app: TestApp
let fixture: Awaited<ReturnType<typeof openTrialRunner>>
beforeAll(async () => {
  app = await testApp()
  fixture = await openTrialRunner('bwrap')
}, 600_000)
afterAll(async () => {
  await fixture[Symbol.asyncDispose]()
  await app[Symbol.asyncDispose]()
})

test('in real sandboxes a task whose reference solution passes is ready, and others are not', {
  timeout: 600_000,
}, async () => {
  const lab = await openImportLab(
    app,
    createSandboxValidator(() => fixture.provider),
  )
  const { run, tasks, runId } = await lab.imported({
    good: smallTask(),
    lazy: smallTask({ 'tests/test.sh': '#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n' }),
    wrong: smallTask({ 'solution/solve.sh': '#!/bin/bash\necho bye > /app/hello.txt\n' }),
  })
  expect(tasks).toMatchObject([
    { taskId: 'good', state: 'ready' },
    { taskId: 'lazy', state: 'rejected', rejection: { reason: 'nop_passes' } },
    { taskId: 'wrong', state: 'rejected', rejection: { reason: 'oracle_fails' } },
  ])
  expect(run).toMatchObject({ state: 'completed', counts: { ready: 1, rejected: 2 } })
  const { calibration } = (await lab.task(runId, 'good')).evidence
  expect(calibration).toMatchObject({ sandbox: 'local', verifyMode: expect.any(String) })
  expect(calibration.attempts.at(-1)).toMatchObject({ oracle: { reward: 1 }, nop: { reward: 0 } })
  expect(calibration.cheats.length).toBeGreaterThan(5)
})

test('a worker without the provider validates nothing', async () => {
  const lab = await openImportLab(
    app,
    createSandboxValidator(() => undefined),
    {
      waits: { workerMs: 0, retryMs: 0, sandboxMs: 60_000 },
    },
  )
  const { run } = await lab.imported({ hello: smallTask() })
  expect(run).toMatchObject({ state: 'waiting', counts: { ready: 0, rejected: 0 } })
})
