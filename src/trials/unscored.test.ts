import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTrialRunner, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'
import type { VerifyMode } from './record.ts'

let runner: Awaited<ReturnType<typeof openTrialRunner>>
beforeAll(async () => {
  runner = await openTrialRunner('bwrap')
})
afterAll(() => runner[Symbol.asyncDispose]())

const DEEP = 'N=$(printf %0200d 0); for i in $(seq 1 60); do mkdir $N && cd $N || break; done'
const attack = (line: string, mode: VerifyMode, files: Record<string, string> = {}) =>
  runner.run(writeTask(mkdtempSync(join(runner.folder, 'task-')), files), createCommandHarness(line), mode)

/** Files of an agent that did not do the work. They must not turn the failure into an infrastructure error. */
const CASES: [what: string, mode: VerifyMode, line: string][] = [
  ['the working folder is a file', 'workspace', 'cd /; rm -rf /app; echo > /app'],
  ['the working folder is a file', 'snapshot', 'cd /; rm -rf /app; echo > /app'],
  ['the working folder is a link', 'snapshot', 'cd /; rm -rf /app; mkdir /app2; ln -s app2 /app'],
  ['there are no users', 'snapshot', ': > /etc/passwd'],
  ['folders are too deep', 'workspace', `cd /app; ${DEEP}`],
  ['folders are too deep', 'snapshot', `cd /app; ${DEEP}`],
]
for (const [what, mode, line] of CASES) {
  test(`a trial is scored although ${what}, in ${mode}`, async () => {
    expect(await attack(line, mode)).toMatchObject({ state: 'failed', reward: 0 })
  })
}

test('in mode snapshot, alternatives of programs are those of the image', async () => {
  const cheat = `printf '#!/bin/sh\\necho 1\\n' > /app/evil; chmod +x /app/evil; ln -sf /app/evil /etc/alternatives/awk`
  const files = { 'tests/test.sh': `#!/bin/bash\nawk 'BEGIN { print 0 }' > /logs/verifier/reward.txt\n` }
  expect(await attack(cheat, 'snapshot', files)).toMatchObject({ reward: 0 })
})

test('the reward folder is removed, whatever it contains', async () => {
  const files = { 'tests/test.sh': `#!/bin/bash\necho 0 > /logs/verifier/reward.txt; sh /app/run.sh\n` }
  const record = await attack(`echo 'cd /logs/verifier; ${DEEP}' > /app/run.sh`, 'workspace', files)
  expect(record).toMatchObject({ state: 'failed', reward: 0 })
})

test('files that the verifier writes beside the reward count towards its disk limit', async () => {
  const test = '#!/bin/bash\necho 0 > /logs/verifier/reward.txt; sh /app/run.sh\n'
  const files = { 'task.toml': taskToml({ environment: 'storage_mb = 20' }), 'tests/test.sh': test }
  const line = `echo 'while :; do head -c 30M /dev/zero >> /logs/verifier/big; sleep 0.2; done' > /app/run.sh`
  const record = await attack(line, 'workspace', files)
  expect(record.steps[0]?.verifier).toMatchObject({ limit: 'disk' })
})

test('output of the submission does not exclude a trial that has a reward', async () => {
  const files = { 'tests/test.sh': '#!/bin/bash\necho 0 > /logs/verifier/reward.txt; cat /app/hello.txt\n' }
  expect(await attack('truncate -s 20M /app/hello.txt', 'workspace', files)).toMatchObject({ reward: 0 })
})
