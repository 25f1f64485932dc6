import fc from 'fast-check'
import { expect, test } from 'vitest'
import { arbitraryTask } from '../../test/support/harbor/arbitrary-task.ts'
import { readTaskToml } from '../../test/support/harbor/small-task.ts'
import { readTask } from './read-task.ts'
import { createMemorySource } from './source.ts'
import { formatTaskToml } from './task-toml.ts'

const RUNS = process.env.ASSAY_TEST_LONG ? 20_000 : 500

test('formatting and reading a task round-trips, and formatting is deterministic', async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryTask, async (files) => {
      const { task } = await readTask(createMemorySource('small', Object.entries(files)))
      const toml = formatTaskToml(task)
      const again = await readTask(createMemorySource('small', Object.entries({ ...files, 'task.toml': toml })))

      expect(again.task).toEqual(task)
      expect(formatTaskToml(again.task)).toBe(toml)
      expect(JSON.parse(JSON.stringify(task))).toEqual(task)
      expect(again.warnings.filter(({ code }) => code !== 'missing_file')).toEqual([])
    }),
    { numRuns: RUNS },
  )
})

test('writes the newest schema in a fixed order with all defaults, without an undeclared network mode', async () => {
  const { task } = await readTaskToml('version = "1.0"\n[metadata]\nb = 1\na = []\n[agent]\nuser = "dev"\n')

  expect(formatTaskToml(task)).toBe(`schema_version = "1.4"

[environment]
os = "linux"
build_timeout_sec = 600
cpus = 1
memory_mb = 2048
storage_mb = 10240
gpus = 0

[agent]
timeout_sec = 600
user = "dev"

[verifier]
timeout_sec = 600
environment_mode = "shared"

[metadata]
b = 1
a = []
`)
})
