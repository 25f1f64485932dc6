import { lstat, mkdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { readFiles, temporaryFolder, writeFiles } from '../../test/support/harbor/folders.ts'
import { pax, type RawEntry, rawEntry, tar, tgz } from '../../test/support/harbor/raw-tar.ts'
import { toStream, unpackToFiles } from '../../test/support/harbor/unpacking.ts'
import { unpack } from './archive.ts'

const FILE: RawEntry = { name: 'a', content: 'hello' }

test.each<[what: string, archive: Buffer, files: Record<string, string>]>([
  ['a gzipped archive', tgz(FILE), { a: 'hello' }],
  ['a plain one', tar(FILE), { a: 'hello' }],
  ['one without its end', rawEntry(FILE), { a: 'hello' }],
  ['one with more zeros than it needs', Buffer.concat([tar(FILE), Buffer.alloc(20_480)]), { a: 'hello' }],
  ['two gzips in a row', Buffer.concat([gzipSync(rawEntry(FILE)), tgz({ name: 'b' })]), { a: 'hello', b: '' }],
  [
    'folders, before or after what is in them',
    tar({ name: 'x/y' }, { name: 'x/', type: '5' }, { name: './' }),
    { 'x/y': '' },
  ],
  ['a path that begins with a dot', tar({ name: './x/y' }), { 'x/y': '' }],
  [
    'a long name by GNU',
    tar({ name: '././@LongLink', type: 'L', content: `${'d/'.repeat(20)}${'n'.repeat(200)}\0` }, FILE),
    { [`${'d/'.repeat(20)}${'n'.repeat(200)}`]: 'hello' },
  ],
  [
    'a long name by POSIX',
    tar(pax({ path: `ü/${'é'.repeat(100)}`, mtime: '1.5' }), FILE),
    { [`ü/${'é'.repeat(100)}`]: 'hello' },
  ],
  ['a prefix', tar({ ...FILE, prefix: 'p/q' }), { 'p/q/a': 'hello' }],
  ['a comment of git', tar({ ...pax({ comment: 'abc' }), type: 'g' }, FILE), { a: 'hello' }],
  ['an old header', tar({ ...FILE, magic: '\0' }), { a: 'hello' }],
])('%s', async (_, archive, files) => {
  expect(await unpackToFiles(archive)).toEqual(files)
})

test('unpacks executables as 755 and other files as 644, without setuid bits or owners', async () => {
  await using place = await temporaryFolder()
  const modes = [0o4755, 0o2755, 0o6777, 0o644, 0o600, 0o000, 0o1777]
  const entries = modes.map((mode, name): RawEntry => ({ name: String(name), mode }))
  await unpack(toStream(tar({ name: 'f/', type: '5', mode: 0o7777 }, ...entries)), join(place.path, 'task'))

  const modeOf = async (name: string) => ((await lstat(join(place.path, 'task', name))).mode & 0o7777).toString(8)
  const found = await Promise.all(modes.map((_, name) => modeOf(String(name))))
  expect(found).toEqual(['755', '755', '755', '644', '644', '644', '755'])
  expect(await modeOf('f')).toBe('755')
})

test('unpacks folders as 755 whatever the file mode mask of this process is', async () => {
  const mask = process.umask(0o077)
  try {
    await using place = await temporaryFolder()
    await unpack(toStream(tar({ name: 'a/b/c' })), join(place.path, 'task'))
    for (const path of ['.', 'a', 'a/b']) expect((await lstat(join(place.path, 'task', path))).mode & 0o777).toBe(0o755)
  } finally {
    process.umask(mask)
  }
})

test('unpacks links that stay inside the folder if links are allowed', async () => {
  await using place = await temporaryFolder()
  const links: [string, string][] = [
    ['bin/tool', '../lib/tool.js'],
    ['self', 'lib'],
    ['lib/later', './not-there-yet'],
  ]
  const entries = links.map(([name, target]): RawEntry => ({ name, target, type: '2' }))
  await unpack(toStream(tar(...entries, { name: 'lib/tool.js' })), join(place.path, 'task'), { links: 'inside' })

  for (const [name, target] of links) expect(await readlink(join(place.path, 'task', name))).toBe(target)
})

test('does not unpack into a folder that is not empty', async () => {
  await using place = await temporaryFolder()
  await writeFiles(place.path, { 'task/mine': 'x' })

  await expect(unpack(toStream(tgz(FILE)), join(place.path, 'task'))).rejects.toThrow('not empty')
  expect(await readFiles(place.path)).toEqual({ 'task/mine': 'x' })
  await mkdir(join(place.path, 'empty'))
  expect(await unpack(toStream(tgz(FILE)), join(place.path, 'empty'))).toEqual({ entries: 1, bytes: 5 })
})
