import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { testKubeconfig, testStorageClass } from '../../test/support/sandboxes/kubernetes-subject.ts'
import { composeCases } from '../../test/support/trials/compose-cases.ts'
import { openSuite } from '../../test/support/trials/in-sandboxes.ts'
import { IMAGE, writeTask } from '../../test/support/trials/trial-runner.ts'
import { oracle } from '../harnesses/reference.ts'

const TRIAL_MS = 120_000

describe.skipIf(testKubeconfig === undefined || testStorageClass === undefined)(
  'with the cluster of ASSAY_TEST_KUBECONFIG and the volumes of ASSAY_TEST_STORAGE_CLASS',
  () => {
    const suite = openSuite('kubernetes')
    composeCases(suite)

    test(
      'a service whose entrypoint the cluster does not tell is refused by name',
      async () => {
        const compose = `services:\n  main: {}\n  db:\n    image: ${IMAGE}\n    command: [sleep, infinity]\n`
        const folder = mkdtempSync(join(suite.runner.folder, 'unknown-'))
        const task = writeTask(folder, { 'environment/docker-compose.yaml': compose })
        await expect(suite.runner.run(task, oracle)).rejects.toThrow(/service db requires an entrypoint/)
      },
      TRIAL_MS,
    )
  },
)
