import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { testKubeconfig, testRegistry, testStorageClass } from '../../test/support/sandboxes/kubernetes-subject.ts'
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

    const writeWithService = () =>
      writeTask(mkdtempSync(join(suite.runner.folder, 'unknown-')), {
        'environment/docker-compose.yaml': `services:\n  main: {}\n  db:\n    image: ${IMAGE}\n    command: [sleep, infinity]\n`,
      })

    test.skipIf(testRegistry !== undefined)(
      'without a registry, a service whose entrypoint the cluster does not tell is refused by name',
      async () => {
        const run = suite.runner.run(writeWithService(), oracle)
        await expect(run).rejects.toThrow(/service db requires an entrypoint/)
      },
      TRIAL_MS,
    )

    test.skipIf(testRegistry === undefined)(
      'with a registry, a service runs with the entrypoint of its image',
      async () => {
        expect(await suite.runner.run(writeWithService(), oracle)).toMatchObject({ state: 'passed', error: null })
      },
      TRIAL_MS,
    )
  },
)
