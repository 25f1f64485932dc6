import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readTask } from './read-task.ts'
import { inMemory } from './source.ts'
import { taskToml } from './task-toml.ts'
import { arbitraryTask } from './testing/arbitrary-task.ts'
import { readToml } from './testing/small-task.ts'

const RUNS = process.env.ASSAY_TEST_LONG ? 20_000 : 500

test('a task that is written and read again is the same, and written again gives the same bytes', async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryTask, async (files) => {
      const { task } = await readTask(inMemory('small', Object.entries(files)))
      const toml = taskToml(task)
      const again = await readTask(inMemory('small', Object.entries({ ...files, 'task.toml': toml })))

      expect(again.task).toEqual(task)
      expect(taskToml(again.task)).toBe(toml)
      expect(JSON.parse(JSON.stringify(task))).toEqual(task)
      expect(again.warnings.filter(({ code }) => code !== 'missing_file')).toEqual([])
    }),
    { numRuns: RUNS },
  )
})

test('one order, the newest schema, every default; no network that nobody asked for', async () => {
  const { task } = await readToml('version = "1.0"\n[metadata]\nb = 1\na = []\n[agent]\nuser = "dev"\n')

  expect(taskToml(task)).toBe(`schema_version = "1.4"

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
