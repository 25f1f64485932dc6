import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { testKubeconfig, testRegistry } from '../../test/support/sandboxes/kubernetes-subject.ts'
import { IMAGE, openTrialRunner, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { nop, oracle } from '../harnesses/reference.ts'

const OPEN_MS = 600_000
const TRIAL_MS = 300_000

/** The entrypoint answers questions while the agent and the tests run. Its user is given by name. */
const DOCKERFILE = `FROM ${IMAGE}
RUN useradd --create-home --uid 1234 worker && mkdir /app && chown worker /app
COPY --chmod=755 service.sh /service.sh
USER worker
ENTRYPOINT ["/service.sh"]
`
const SERVICE = `#!/bin/bash
mkfifo /tmp/question /tmp/answer
while read -r word < /tmp/question; do echo "$(id -un) $word" > /tmp/answer; done &
exec "$@"
`
const HEALTHCHECK = '[environment.healthcheck]\ncommand = "test -p /tmp/answer"\ninterval_sec = 0.1\nretries = 100\n'

describe.skipIf(testKubeconfig === undefined || testRegistry === undefined)(
  'with the cluster of ASSAY_TEST_KUBECONFIG and the registry of ASSAY_TEST_REGISTRY',
  () => {
    let runner: Awaited<ReturnType<typeof openTrialRunner>>
    beforeAll(async () => {
      runner = await openTrialRunner('kubernetes')
      await runner.provider.selfTest()
    }, OPEN_MS)
    afterAll(() => runner?.[Symbol.asyncDispose]())

    test(
      'a task with a Dockerfile is built, and its entrypoint runs beside the agent and the tests as its user',
      async () => {
        const task = writeTask(join(runner.folder, 'built'), {
          'task.toml': taskToml({ end: HEALTHCHECK }, null),
          'environment/Dockerfile': DOCKERFILE,
          'environment/service.sh': SERVICE,
          'solution/solve.sh': '#!/bin/bash\necho hello > /tmp/question\ncat /tmp/answer > /app/hello.txt\n',
          'tests/test.sh': `#!/bin/bash
echo again > /tmp/question
[ "$(cat /tmp/answer)" = "worker again" ] && [ "$(cat /app/hello.txt)" = "worker hello" ]
echo $((1 - $?)) > /logs/verifier/reward.txt
`,
        })
        const solved = await runner.run(task, oracle)
        expect(solved).toMatchObject({ state: 'passed', reward: 1, isolation: 'kubernetes:default', error: null })
        expect(await runner.run(task, nop)).toMatchObject({ state: 'failed', reward: 0, class: 'verified' })
      },
      TRIAL_MS,
    )
  },
)
