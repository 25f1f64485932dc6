import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { writeFiles } from '../../../test/support/harbor/folders.ts'
import { SMALL_TASK } from '../../../test/support/harbor/small-task.ts'
import { openFolderSource } from '../folder-source.ts'
import { checkTask } from './check-task.ts'

async function estimated(files: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'assay-strength-'))
  try {
    await writeFiles(folder, { ...SMALL_TASK, ...files })
    return (await checkTask(await openFolderSource(folder))).strength
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const script = (line: string): Record<string, string> => ({
  'tests/test.sh': `#!/bin/bash\n# go test ./... in a comment\n${line}\necho $? > /logs/verifier/reward.txt\n`,
})

test.each([
  ['cd /app && go test ./...', 'weak'],
  ['cd /app; npx jest src', 'weak'],
  ['if make -C /app; then true; fi', 'weak'],
  ['timeout 60 cargo test', 'weak'],
  ['python3 -m pytest /tests/test_it.py', 'weak'],
  ['pytest tests/', 'weak'],
  ['bash /app/run.sh', 'weak'],
  ['./configure', 'weak'],
  ['cp /tests/x_test.go /app/', 'weak'],
  ['curl -s http://localhost:8080', 'weak'],
  ['pytest /tests/test_it.py -rA', 'standard'],
  ['grep -q hello /app/hello.txt', 'standard'],
  ['cmp /app/out.txt /tests/expected.txt', 'standard'],
  ['python3 /tests/check.py', 'standard'],
])('a test script with the line %s is %s', async (line, strength) => {
  expect(await estimated(script(line))).toMatchObject({ strength })
})

test.each([
  ['import subprocess', 'weak'],
  ['import sys; sys.path.insert(0, "/app")', 'weak'],
  ['import pickle', 'weak'],
  ['import json; json.load(open("/app/x.json"))', 'standard'],
])('tests in Python with %s are %s', async (code, strength) => {
  expect(await estimated({ ...script('pytest /tests/test_it.py'), 'tests/test_it.py': `${code}\n` })).toMatchObject({
    strength,
  })
})

test('estimates a separate verifier that only reads, and a grader, as strong', async () => {
  const toml = (more: string) => ({ 'task.toml': `[environment]\ndocker_image = "a/b"\n${more}` })
  const separate = toml('[verifier]\nenvironment_mode = "separate"\n')
  expect(await estimated({ ...script('true'), ...separate })).toMatchObject({ strength: 'strong' })
  expect(await estimated({ ...script('make'), ...separate })).toMatchObject({ strength: 'weak' })
  const grader = toml('[metadata.assay]\ngrader = true\n')
  expect(await estimated({ ...script('make'), ...grader })).toMatchObject({ strength: 'strong' })
})
