import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import { COLLECT_DEPTH_MAX } from './collect.ts'
import { filterTar, REST_LEFT_OUT } from './filter-tar.ts'
import { type TarHeaderFields, tarEnd, tarHeader, tarPadding } from './tar-writer.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-filter-tar-'))
})
afterAll(() => rm(folder, { recursive: true }))

type EntryInput = Partial<TarHeaderFields> & { path: string; content?: string }

const entry = ({ content = '', ...facts }: EntryInput): Buffer[] => [
  tarHeader({ type: 'File', mode: 0o644, uid: 0, gid: 0, size: content.length, ...facts }),
  Buffer.from(content),
  tarPadding(content.length),
]

async function filterEntries(given: EntryInput[], caps = { files: 100, bytes: 1000 }, endless?: AsyncIterable<Buffer>) {
  const tar = async function* () {
    for (const one of given) yield* entry(one)
    if (endless) yield* endless
    yield tarEnd()
  }
  const { tar: passed, leftOut } = await filterTar(tar(), { folder, caps, prefix: 'up/' })
  const found: [string, string, string][] = []
  const ended = async function* () {
    yield* passed
    yield tarEnd()
  }
  for await (const one of readTarEntries(ended())) found.push([one.path, one.type, await contentOf(one)])
  return { found, leftOut }
}

async function contentOf({ content }: TarEntry): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of content()) parts.push(part)
  return Buffer.concat(parts).toString()
}

test('turns a hard link into a copy of its file, which counts again', async () => {
  const link: EntryInput = { path: 'w/second', type: 'Link', link: 'w/first' }
  const { found, leftOut } = await filterEntries([{ path: 'w/first', content: 'abc' }, link], { files: 9, bytes: 6 })
  expect(found).toEqual([
    ['up/w/first', 'File', 'abc'],
    ['up/w/second', 'File', 'abc'],
  ])
  expect(leftOut).toEqual([])
  const small = await filterEntries([{ path: 'w/first', content: 'abc' }, link], { files: 9, bytes: 5 })
  expect(small.leftOut).toEqual(['w/second'])
})

test('keeps hard links if requested, and counts no bytes for them', async () => {
  const link: EntryInput = { path: 'w/second', type: 'Link', link: 'w/first' }
  const caps = { files: 9, bytes: 3, keepsHardLinks: true }
  const { found, leftOut } = await filterEntries([{ path: 'w/first', content: 'abc' }, link], caps)
  expect(found).toEqual([
    ['up/w/first', 'File', 'abc'],
    ['up/w/second', 'Link', ''],
  ])
  expect(leftOut).toEqual([])
})

test('leaves out hard links to files that were left out or do not exist', async () => {
  const { found, leftOut } = await filterEntries([
    { path: 'w/leaves', type: 'SymbolicLink', link: '/etc/shadow' },
    { path: 'w/second', type: 'Link', link: 'w/leaves' },
    { path: 'w/third', type: 'Link', link: '../../etc/shadow' },
    { path: '../../w/up', content: 'x' },
  ])
  expect(found).toEqual([])
  expect(leftOut).toEqual(['w/leaves', 'w/second', 'w/third', '../../w/up'])
})

test('stops reading an endless file at the limit', async () => {
  let read = 0
  const zeros = async function* () {
    for (;;) {
      read += 1
      yield Buffer.alloc(64 * 1024)
    }
  }
  const { found, leftOut } = await filterEntries(
    [
      { path: 'w/a', content: 'a' },
      { path: 'w/sparse', size: 5e12 },
    ],
    undefined,
    zeros(),
  )
  expect(found).toEqual([['up/w/a', 'File', 'a']])
  expect(leftOut).toEqual(['w/sparse', REST_LEFT_OUT])
  expect(read).toBeLessThan(10)
})

test('a broken archive ends the collection without an error of the provider', async () => {
  const broken = Readable.from([Buffer.alloc(512, 'x')])
  const { found, leftOut } = await filterEntries([{ path: 'w/a', content: 'a' }], undefined, broken)
  expect(found).toEqual([['up/w/a', 'File', 'a']])
  expect(leftOut).toEqual([REST_LEFT_OUT])
})

test('names folders that are nested too deeply once, without their contents', async () => {
  const deep = Array.from({ length: 3000 }, (_, depth) => ({
    path: `w${'/d'.repeat(depth)}`,
    type: 'Directory' as const,
  }))
  const { found, leftOut } = await filterEntries([...deep, { path: 'w/file', content: 'x' }], {
    files: 1000,
    bytes: 1000,
  })
  expect(found.length).toBe(COLLECT_DEPTH_MAX + 1)
  expect(found.at(-1)).toEqual(['up/w/file', 'File', 'x'])
  expect(leftOut).toEqual([`w${'/d'.repeat(COLLECT_DEPTH_MAX)}`])
})

test('leaves no files behind', async () => {
  await filterEntries([{ path: 'w/a', content: 'a' }])
  expect(await readdir(folder)).toEqual([])
})
