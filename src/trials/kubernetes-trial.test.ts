import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createKubernetesSubject, testKubeconfig } from '../../test/support/sandboxes/kubernetes-subject.ts'
import type { ProviderUnderTest } from '../../test/support/sandboxes/provider-under-test.ts'
import { writeTask } from '../../test/support/trials/trial-runner.ts'
import { openFolderSource } from '../harbor/folder-source.ts'
import { readTask } from '../harbor/read-task.ts'
import type { Harness } from '../harnesses/harness.ts'
import { nop, oracle } from '../harnesses/reference.ts'
import type { TrialRecord, VerifyMode } from './record.ts'
import { runTrial } from './run-trial.ts'

const OPEN_MS = 300_000
const TRIAL_MS = 120_000

describe.skipIf(testKubeconfig === undefined)('with the cluster of ASSAY_TEST_KUBECONFIG', () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-kubernetes-trial-'))
  let subject: ProviderUnderTest

  beforeAll(async () => {
    subject = await createKubernetesSubject(testKubeconfig ?? '')
  }, OPEN_MS)

  afterAll(async () => {
    await subject?.[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  async function run(harness: Harness, verifyMode: VerifyMode): Promise<TrialRecord> {
    const taskFolder = writeTask(join(folder, 'task'))
    const { task, digest } = await readTask(await openFolderSource(taskFolder))
    return runTrial(subject.provider, {
      task,
      digest,
      folder: taskFolder,
      harness,
      verifyMode,
      variables: {},
      signal: new AbortController().signal,
      onPhase: () => {},
      outputFolder: join(folder, 'output'),
      savesPatch: true,
    })
  }

  test.each<VerifyMode>(['workspace', 'snapshot', 'shared-cold', 'shared-live'])(
    'the reference solution passes and doing nothing fails in mode %s',
    async (mode) => {
      const solved = await run(oracle, mode)
      expect(solved).toMatchObject({ state: 'passed', reward: 1, isolation: 'kubernetes:default', error: null })
      expect(await run(nop, mode)).toMatchObject({ state: 'failed', reward: 0, class: 'verified' })
    },
    TRIAL_MS,
  )
})
