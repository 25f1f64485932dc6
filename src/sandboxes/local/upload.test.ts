import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type RawEntry, tar } from '../../../test/support/harbor/raw-tar.ts'
import { hostileEntries } from '../../../test/support/sandboxes/hostile-entries.ts'
import { unpackUploads } from './exec.ts'

let folder: string
let root: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-insert-'))
  root = join(folder, 'root')
  await mkdir(join(root, 'etc'), { recursive: true })
  await writeFile(join(root, 'etc', 'passwd'), 'root')
})

afterEach(() => rm(folder, { recursive: true }))

const unpack = (target: string, ...entries: RawEntry[]): Promise<void> =>
  unpackUploads(root, [{ target, tar: Readable.from([tar(...entries)]) }], false)

test.each(Object.entries(hostileEntries))('%s is refused', async (_, entries) => {
  await expect(unpack('/made', ...entries)).rejects.toThrow(/refused/)
  expect([await readdir(folder), (await readdir(root)).sort()]).toEqual([['root'], ['etc', 'made']])
})

test.each([
  ['an absolute path', [{ name: '/etc/new', content: 'x' }]],
  ['a link to elsewhere', [{ name: 'link', type: '2', target: '/etc' }]],
  ['a link up', [{ name: 'link', type: '2', target: '..' }]],
  ['a file where a folder is', [{ name: '../made', content: 'x' }]],
  [
    'a file below a file',
    [
      { name: 'a', content: 'x' },
      { name: 'a/b', content: 'x' },
    ],
  ],
])('%s is refused too', async (_, entries) => {
  await expect(unpack('/made', ...entries)).rejects.toThrow(/refused/)
})

test('a target that leads through a link of the image is refused', async () => {
  await symlink(folder, join(root, 'link'))
  for (const target of ['/link', '/link/below', '/etc/../link']) {
    await expect(unpack(target, { name: 'new', content: 'x' })).rejects.toThrow(/link in the image/)
  }
  expect(await readdir(folder)).toEqual(['root'])
})

test('a link of the image is replaced by a file, not written through; a target cannot go above the root', async () => {
  await writeFile(join(folder, 'outside'), 'kept')
  await symlink(join(folder, 'outside'), join(root, 'etc', 'link'))
  await unpack('/../../etc', { name: 'link', content: 'new', mode: 0o4755 })
  expect(await readFile(join(folder, 'outside'), 'utf8')).toBe('kept')
  expect(await readFile(join(root, 'etc', 'link'), 'utf8')).toBe('new')
  expect((await stat(join(root, 'etc', 'link'))).mode & 0o7777).toBe(0o755)
})

test('refuses an upload that is not an archive or is truncated', async () => {
  const half = tar({ name: 'a', content: 'x'.repeat(5000) }).subarray(0, 2000)
  for (const bytes of [Buffer.from('no archive'), half]) {
    await expect(unpackUploads(root, [{ target: '/', tar: Readable.from([bytes]) }], false)).rejects.toThrow()
  }
})
