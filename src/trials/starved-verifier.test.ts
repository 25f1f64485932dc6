import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'
import { taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'

/** Accepts every answer for which a program that holds the answer in memory prints nothing. */
const SILENCE_PASSES = `#!/bin/bash
echo hello > /tmp/expected
if [ -f /app/hello.txt ] && [ -z "$(diff /app/hello.txt /tmp/expected)" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`

inSandboxes(({ runner }) => {
  const run = (files: Record<string, string>, line: string) => {
    const task = { 'task.toml': taskToml({ environment: 'memory_mb = 32' }), ...files }
    return runner.run(
      writeTask(mkdtempSync(join(runner.folder, 'task-')), task),
      createCommandHarness(line),
      'workspace',
    )
  }

  test('an answer that makes a program of the tests run out of memory scores 0', async () => {
    const line = 'head -c 120000000 /dev/zero | tr "\\0" x > hello.txt'
    const record = await run({ 'tests/test.sh': SILENCE_PASSES }, line)
    expect(record).toMatchObject({ state: 'failed', reward: 0 })
    expect(record.steps[0]?.notes.join()).toContain('limit: memory')
  }, 60_000)

  test('an answer that fills the disk of the tests scores 0', async () => {
    const fragile = `#!/bin/bash
echo hello > /tmp/expected
for n in {1..9}; do tr x y < /app/hello.txt > /tmp/copy-$n; done
diff /app/hello.txt /tmp/expected > /tmp/difference
if [ -f /app/hello.txt ] && [ "$(wc -l < /tmp/difference)" -lt 100000 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`
    const files = { 'task.toml': taskToml({ environment: 'storage_mb = 50' }), 'tests/test.sh': fragile }
    const record = await run(files, 'head -c 40000000 /dev/zero | tr "\\0" x | fold > hello.txt')
    expect(record).toMatchObject({ state: 'failed', reward: 0 })
    expect(record.steps[0]?.notes.join()).toContain('limit: disk')
  }, 60_000)

  test('a verdict counts if the tests run out of memory with the reference solution too', async () => {
    const hungry = `#!/bin/bash
perl -e '$x = "a" x 192e6'
if grep -q hello /app/hello.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`
    const record = await run({ 'tests/test.sh': hungry }, 'echo hello > hello.txt')
    expect(record).toMatchObject({ state: 'passed', reward: 1 })
  }, 60_000)

  test('a program of the agent that runs out of memory in one of the tests leaves the reward of the others', async () => {
    const part = `#!/bin/bash
bash /app/run.sh
echo 0.5 > /logs/verifier/reward.txt
`
    const record = await run({ 'tests/test.sh': part }, `echo "perl -e '\\$x = q(a) x 192e6'" > run.sh`)
    expect(record).toMatchObject({ state: 'failed', reward: 0.5, steps: [{ verifier: { starvedOf: 'memory' } }] })
  }, 60_000)
})
