import { symlinkSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { folderRegistry } from './folder.ts'
import { writeTask } from './testing/subjects.ts'
import { openWorkbench, type Workbench } from './testing/workbench.ts'

let bench: Workbench
let root: string
beforeEach(async () => {
  bench = await openWorkbench()
  root = join(bench.folder, 'datasets')
  await writeTask(join(root, 'lab/d/a'), 'lab/a')
})
afterEach(async () => bench[Symbol.asyncDispose]())

const registry = (within?: string) =>
  folderRegistry({ name: 'dir', folder: root, ...(within === undefined ? {} : { within }) })
const manifest = (text: string) => writeFile(join(root, 'lab/d/dataset.toml'), `[dataset]\nname = "lab/d"\n${text}`)

test('folders without task.toml and files beside them are no tasks', async () => {
  await mkdir(join(root, 'lab/d/notes'))
  await writeFile(join(root, 'lab/d/README.md'), 'Hello.')

  expect((await bench.found(registry(), 'lab/d')).tasks.map(({ name }) => name)).toEqual(['a'])
})

test('an edited task has another digest, and what was resolved before is refused', async () => {
  const before = await bench.found(registry(), 'lab/d')
  await writeFile(join(root, 'lab/d/a/instruction.md'), 'Something else.\n')
  const after = await bench.found(registry(), 'lab/d')

  expect(after.digest).not.toBe(before.digest)
  expect(await bench.resolve(registry(), `lab/d@${before.digest}`)).toMatchObject({ kind: 'other_versions' })
  expect(await bench.download(registry(), before)).toMatchObject({
    kind: 'refused',
    faults: [{ reason: 'digest_mismatch' }],
  })
  await rm(join(root, 'lab/d/a'), { recursive: true })
  expect(await bench.download(registry(), after)).toMatchObject({ faults: [{ reason: 'missing' }] })
})

test('what Harbor would not pack changes nothing', async () => {
  const { digest } = await bench.found(registry(), 'lab/d')
  await writeFile(join(root, 'lab/d/a/notes.txt'), 'mine')
  await mkdir(join(root, 'lab/d/a/tests/__pycache__'))
  await writeFile(join(root, 'lab/d/a/tests/__pycache__/x.pyc'), 'old')

  const again = await bench.found(registry(), 'lab/d')

  expect(again.digest).toBe(digest)
  expect(await bench.download(registry(), again)).toMatchObject({ kind: 'downloaded', dataset: { digest } })
})

test('a manifest names the tasks, their digests and the files that count', async () => {
  const [task] = (await bench.found(registry(), 'lab/d')).tasks
  await writeFile(join(root, 'lab/d/metric.py'), 'print(1)\n')
  await rename(join(root, 'lab/d/a'), join(root, 'lab/elsewhere'))
  const listed = `version = "7"\n[[tasks]]\nname = "other/a"\ndigest = "${task?.digest}"\npath = "../elsewhere"\n`
  await manifest(`${listed}[[files]]\npath = "metric.py"\n`)

  const dataset = await bench.found(registry(), 'lab/d@7')

  expect(dataset).toMatchObject({ resolvedRef: '7', revision: null, files: [{ path: 'metric.py' }] })
  expect(dataset.tasks).toMatchObject([{ org: 'other', name: 'a', digest: task?.digest }])
  expect(await bench.download(registry(), dataset)).toMatchObject({ kind: 'downloaded' })
})

const ZEROS = `sha256:${'0'.repeat(64)}`

test.each([
  ['another digest of a task', `[[tasks]]\nname = "lab/a"\ndigest = "${ZEROS}"\n`],
  ['another digest of a file', `[[files]]\npath = "dataset.toml"\ndigest = "${ZEROS}"\n`],
  ['a file that is not there', '[[files]]\npath = "metric.py"\n'],
  ['a file elsewhere', '[[files]]\npath = "../x"\n'],
  ['a task that is not there', '[[tasks]]\nname = "lab/b"\n'],
  ['a path that leads out', '[[tasks]]\nname = "lab/a"\npath = "../../../outside"\n'],
  ['an absolute path', '[[tasks]]\nname = "lab/a"\npath = "/etc"\n'],
  ['a link that leads out', '[[tasks]]\nname = "lab/a"\npath = "out"\n'],
  ['one task twice', '[[tasks]]\nname = "lab/a"\n[[tasks]]\nname = "lab/a"\n'],
  ['a name without organisation', '[[tasks]]\nname = "a"\n'],
  ['no TOML', '[[tasks\n'],
])('a manifest with %s is invalid', async (_, text) => {
  await writeTask(join(bench.folder, 'outside'), 'lab/a')
  symlinkSync(join(bench.folder, 'outside'), join(root, 'lab/d/out'))
  await manifest(text)

  expect(await bench.resolve(registry(), 'lab/d')).toMatchObject({ kind: 'invalid' })
})

test('a manifest of another dataset is invalid', async () => {
  await writeFile(join(root, 'lab/d/dataset.toml'), '[dataset]\nname = "lab/e"\n')

  expect(await bench.resolve(registry(), 'lab/d')).toMatchObject({ kind: 'invalid', detail: /lab\/e/ })
})

test('a manifest may point as far as it is allowed to, and no further', async () => {
  await writeTask(join(bench.folder, 'tasks/b'), 'lab/b')
  await manifest('[[tasks]]\nname = "lab/b"\npath = "../../../tasks/b"\n')

  expect(await bench.resolve(registry(), 'lab/d')).toMatchObject({ kind: 'invalid' })
  const wide = registry(bench.folder)
  expect(await bench.download(wide, await bench.found(wide, 'lab/d'))).toMatchObject({ kind: 'downloaded' })
})

test('a dataset that is a link out of the folder is not there', async () => {
  await writeTask(join(bench.folder, 'outside/a'), 'lab/a')
  symlinkSync(join(bench.folder, 'outside'), join(root, 'lab/linked'))

  expect(await bench.resolve(registry(), 'lab/linked')).toEqual({ kind: 'unknown' })
})

test('a task that is a link out of the folder, or holds one, is invalid', async () => {
  await writeTask(join(bench.folder, 'outside'), 'lab/b')
  symlinkSync(join(bench.folder, 'outside'), join(root, 'lab/d/b'))
  expect(await bench.resolve(registry(), 'lab/d')).toMatchObject({ kind: 'invalid' })

  await rm(join(root, 'lab/d/b'))
  symlinkSync('/etc/passwd', join(root, 'lab/d/a/tests/passwd'))
  expect(await bench.resolve(registry(), 'lab/d')).toMatchObject({ kind: 'invalid', detail: /passwd/ })
})

test('a folder that is not there is a setting to mend', async () => {
  await rm(root, { recursive: true })

  await expect(bench.resolve(registry(), 'lab/d')).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    isLasting: true,
  })
})
