import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { emitTask } from './emit.ts'
import { inFolder } from './folder-source.ts'
import { readTask } from './read-task.ts'
import { inMemory } from './source.ts'
import { taskToml } from './task-toml.ts'
import { arbitraryTask } from './testing/arbitrary-task.ts'
import { readFiles, temporaryFolder } from './testing/folders.ts'
import { readToml, SMALL_TASK } from './testing/small-task.ts'

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

test('the folder that is written holds the same task', async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryTask, async (files) => {
      await using place = await temporaryFolder()
      const source = inMemory('small', Object.entries(files))
      const { task } = await readTask(source)
      await emitTask(task, source, join(place.path, 'small'))

      expect((await readTask(await inFolder(join(place.path, 'small')))).task).toEqual(task)
    }),
    { numRuns: RUNS / 10 },
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

test('nothing is written over', async () => {
  await using place = await temporaryFolder()
  const source = inMemory('small', Object.entries(SMALL_TASK))
  const { task } = await readTask(source)
  await emitTask(task, source, join(place.path, 'task'))

  await expect(emitTask(task, source, join(place.path, 'task'))).rejects.toThrow('EEXIST')
  expect(Object.keys(await readFiles(join(place.path, 'task'))).toSorted()).toEqual(Object.keys(SMALL_TASK).toSorted())
})
