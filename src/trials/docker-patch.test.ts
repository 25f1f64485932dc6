import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTrialRunner, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'

let runner: Awaited<ReturnType<typeof openTrialRunner>>
beforeAll(async () => {
  runner = await openTrialRunner('docker')
}, 600_000)
afterAll(async () => runner[Symbol.asyncDispose]())

async function patchAfter(name: string, line: string): Promise<string> {
  const task = writeTask(join(runner.folder, name), { 'environment/main.py': 'a\nb\n', 'environment/zz/last': 'x\n' })
  const record = await runner.run(task, createCommandHarness(line), 'workspace', { savesPatch: true })
  expect(record.state).not.toBe('errored')
  return readFileSync(join(runner.folder, 'changes.patch'), 'latin1')
}

test('changes of an agent in a container are written as a patch', async () => {
  expect(await patchAfter('changed', 'echo c >> main.py; rm -r zz; ln -s /etc/passwd passwd')).toBe(
    `# Not looked at:
#   passwd
diff --git a/main.py b/main.py
--- a/main.py
+++ b/main.py
@@ -1,2 +1,3 @@
 a
 b
+c
diff --git a/zz/last b/zz/last
deleted file mode 100644
--- a/zz/last
+++ /dev/null
@@ -1,1 +0,0 @@
-x
`,
  )
}, 120_000)

test('a container that is not read completely yields no deletions', async () => {
  const patch = await patchAfter('cut', 'truncate -s 5G 0')
  expect(patch).toMatch(/^# Not looked at:\n# {3}0\n/)
  expect(patch).not.toContain('deleted file')
}, 300_000)
