import { symlinkSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDownloadFixture, type DownloadFixture } from '../../../test/support/harbor/download-fixture.ts'
import { writeTask } from '../../../test/support/harbor/registry-fixtures.ts'
import { openFolderRegistry } from './folder.ts'

let fixture: DownloadFixture
let root: string
beforeEach(async () => {
  fixture = await createDownloadFixture()
  root = join(fixture.folder, 'datasets')
  await writeTask(join(root, 'lab/d/a'), 'lab/a')
})
afterEach(async () => fixture[Symbol.asyncDispose]())

const registry = (within?: string) => openFolderRegistry({ name: 'dir', folder: root, within })
const manifest = (text: string) => writeFile(join(root, 'lab/d/dataset.toml'), `[dataset]\nname = "lab/d"\n${text}`)

test('ignores folders without task.toml and additional files', async () => {
  await mkdir(join(root, 'lab/d/notes'))
  await writeFile(join(root, 'lab/d/README.md'), 'Hello.')

  expect((await fixture.resolveDataset(registry(), 'lab/d')).tasks.map(({ name }) => name)).toEqual(['a'])
})

test('refuses the download of a task that was edited after resolution', async () => {
  const before = await fixture.resolveDataset(registry(), 'lab/d')
  await writeFile(join(root, 'lab/d/a/instruction.md'), 'Something else.\n')
  const after = await fixture.resolveDataset(registry(), 'lab/d')

  expect(after.digest).not.toBe(before.digest)
  expect(await fixture.resolve(registry(), `lab/d@${before.digest}`)).toMatchObject({ kind: 'other_versions' })
  expect(await fixture.download(registry(), before)).toMatchObject({
    kind: 'refused',
    faults: [{ reason: 'digest_mismatch' }],
  })
  await rm(join(root, 'lab/d/a'), { recursive: true })
  expect(await fixture.download(registry(), after)).toMatchObject({ faults: [{ reason: 'missing' }] })
})

test('files that Harbor does not pack do not change the digest', async () => {
  const { digest } = await fixture.resolveDataset(registry(), 'lab/d')
  await writeFile(join(root, 'lab/d/a/notes.txt'), 'mine')
  await mkdir(join(root, 'lab/d/a/tests/__pycache__'))
  await writeFile(join(root, 'lab/d/a/tests/__pycache__/x.pyc'), 'old')

  const again = await fixture.resolveDataset(registry(), 'lab/d')

  expect(again.digest).toBe(digest)
  expect(await fixture.download(registry(), again)).toMatchObject({ kind: 'downloaded', dataset: { digest } })
})

test('a manifest lists tasks, digests and files of the digest', async () => {
  const [task] = (await fixture.resolveDataset(registry(), 'lab/d')).tasks
  await writeFile(join(root, 'lab/d/metric.py'), 'print(1)\n')
  await rename(join(root, 'lab/d/a'), join(root, 'lab/elsewhere'))
  const listed = `version = "7"\n[[tasks]]\nname = "other/a"\ndigest = "${task?.digest}"\npath = "../elsewhere"\n`
  await manifest(`${listed}[[files]]\npath = "metric.py"\n`)

  const dataset = await fixture.resolveDataset(registry(), 'lab/d@7')

  expect(dataset).toMatchObject({ resolvedRef: '7', revision: null, files: [{ path: 'metric.py' }] })
  expect(dataset.tasks).toMatchObject([{ org: 'other', name: 'a', digest: task?.digest }])
  expect(await fixture.download(registry(), dataset)).toMatchObject({ kind: 'downloaded' })
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
])('rejects a manifest with %s', async (_, text) => {
  await writeTask(join(fixture.folder, 'outside'), 'lab/a')
  symlinkSync(join(fixture.folder, 'outside'), join(root, 'lab/d/out'))
  await manifest(text)

  expect(await fixture.resolve(registry(), 'lab/d')).toMatchObject({ kind: 'invalid' })
})

test('rejects the manifest of another dataset', async () => {
  await writeFile(join(root, 'lab/d/dataset.toml'), '[dataset]\nname = "lab/e"\n')

  expect(await fixture.resolve(registry(), 'lab/d')).toMatchObject({ kind: 'invalid', detail: /lab\/e/ })
})

test('restricts manifest paths to the allowed folder', async () => {
  await writeTask(join(fixture.folder, 'tasks/b'), 'lab/b')
  await manifest('[[tasks]]\nname = "lab/b"\npath = "../../../tasks/b"\n')

  expect(await fixture.resolve(registry(), 'lab/d')).toMatchObject({ kind: 'invalid' })
  const wide = registry(fixture.folder)
  expect(await fixture.download(wide, await fixture.resolveDataset(wide, 'lab/d'))).toMatchObject({
    kind: 'downloaded',
  })
})

test('does not find a dataset that is a link out of the folder', async () => {
  await writeTask(join(fixture.folder, 'outside/a'), 'lab/a')
  symlinkSync(join(fixture.folder, 'outside'), join(root, 'lab/linked'))

  expect(await fixture.resolve(registry(), 'lab/linked')).toEqual({ kind: 'unknown' })
})

test('rejects a task that is or contains a link out of the folder', async () => {
  await writeTask(join(fixture.folder, 'outside'), 'lab/b')
  symlinkSync(join(fixture.folder, 'outside'), join(root, 'lab/d/b'))
  expect(await fixture.resolve(registry(), 'lab/d')).toMatchObject({ kind: 'invalid' })

  await rm(join(root, 'lab/d/b'))
  symlinkSync('/etc/passwd', join(root, 'lab/d/a/tests/passwd'))
  expect(await fixture.resolve(registry(), 'lab/d')).toMatchObject({ kind: 'invalid', detail: /passwd/ })
})

test('reports a missing folder as a lasting configuration error', async () => {
  await rm(root, { recursive: true })

  await expect(fixture.resolve(registry(), 'lab/d')).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    isPermanent: true,
  })
})
