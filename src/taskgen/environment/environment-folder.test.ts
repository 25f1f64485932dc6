import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Parser, type ReadEntry } from 'tar'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { commitTree, type HandmadeEntry, makeRepository } from '../../../test/support/taskgen/handmade-trees.ts'
import { completeRecipe } from '../../grading/languages/recipe.ts'
import { openClone } from '../../repos/mirror/local-clone.ts'
import { findTreeFault, readTree } from './read-tree.ts'
import { writeEnvironment } from './write-environment.ts'

let root: string
let repository: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-environment-'))
  repository = join(root, 'repository')
  await makeRepository(repository)
})
afterAll(() => rm(root, { recursive: true, force: true }))

const signal = new AbortController().signal

async function read(entries: HandmadeEntry[]) {
  await using clone = await openClone(repository, { signal })
  return await readTree({ location: clone.location }, await commitTree(repository, entries), signal)
}

async function writeFixture(entries: HandmadeEntry[], manifests: string[] = [], toolchain: string[] = []) {
  const commit = await commitTree(repository, entries)
  await using clone = await openClone(repository, { signal })
  const { location } = clone
  const tree = await readTree({ location }, commit, signal)
  if (tree.kind !== 'done') throw new Error(JSON.stringify(tree))
  const folder = await mkdtemp(join(root, 'folder-'))
  const made = await writeEnvironment(
    folder,
    { recipe: completeRecipe({ runner: 'pytest', manifests, toolchain }), location, tree: tree.value },
    signal,
  )
  return { folder, ...made, archive: await readFile(join(folder, 'repo.tar.gz')) }
}

async function unpackArchive(archive: Buffer): Promise<Record<string, string>> {
  const found: Promise<[string, string]>[] = []
  const parser = new Parser({ onReadEntry: (entry) => found.push(describeEntry(entry)), strict: true })
  parser.end(archive)
  return Object.fromEntries(await Promise.all(found))
}

async function describeEntry(entry: ReadEntry): Promise<[string, string]> {
  const { path, type, mode, uid, gid, mtime, linkpath } = entry
  const content = (await entry.concat()).toString('latin1')
  const facts = [type, mode?.toString(8), uid, gid, mtime?.getTime()].join(' ')
  return [path, `${facts} ${type === 'SymbolicLink' ? linkpath : content}`]
}

const HOSTILE: HandmadeEntry[] = [
  { name: '-rf', content: 'dash' },
  { name: '.gitattributes', content: 'secret.txt export-ignore\n* export-subst text=auto\n' },
  { name: 'a\nb "c".txt', content: 'newline' },
  { name: Buffer.from('naïve ☃.txt').toString('latin1'), content: Buffer.from('caf\xe9\r\n', 'latin1') },
  { name: 'dollar.txt', content: '$Format:%H$' },
  { name: 'etc', mode: '120000', content: '/etc' },
  { name: 'out', mode: '120000', content: '../../outside' },
  { name: 'run.sh', mode: '100755', content: '#!/bin/sh\n' },
  { name: 'secret.txt', content: 'kept' },
  { name: 'sub', entries: [{ name: 'x'.repeat(150), content: 'long' }] },
  { name: 'submodule', mode: '160000' },
]

test('archives exactly the files of the tree', async () => {
  const { archive } = await writeFixture(HOSTILE)
  const files = await unpackArchive(archive)
  expect(files).toEqual({
    '-rf': 'File 644 0 0 0 dash',
    '.gitattributes': 'File 644 0 0 0 secret.txt export-ignore\n* export-subst text=auto\n',
    'a\nb "c".txt': 'File 644 0 0 0 newline',
    'naïve ☃.txt': 'File 644 0 0 0 caf\xe9\r\n',
    'dollar.txt': 'File 644 0 0 0 $Format:%H$',
    etc: 'SymbolicLink 777 0 0 0 /etc',
    out: 'SymbolicLink 777 0 0 0 ../../outside',
    'run.sh': 'File 755 0 0 0 #!/bin/sh\n',
    'secret.txt': 'File 644 0 0 0 kept',
    [`sub/${'x'.repeat(150)}`]: 'File 644 0 0 0 long',
  })
})

test('archives the same tree to the same bytes', async () => {
  const [one, two] = [await writeFixture(HOSTILE), await writeFixture(HOSTILE)]
  const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
  expect(digest(one.archive)).toBe(digest(two.archive))
  expect(one.dockerfile).toBe(two.dockerfile)
})

test('a profile depends on manifests and the toolchain, and not on sources', async () => {
  const of = async (source: string, manifest: string, toolchain: string[] = []) => {
    const entries = [
      { name: 'a.py', content: source },
      { name: 'requirements.txt', content: manifest },
    ]
    return (await writeFixture(entries, ['requirements.txt'], toolchain)).profile
  }
  expect(await of('1', 'x')).toBe(await of('2', 'x'))
  expect(await of('1', 'x')).not.toBe(await of('1', 'y'))
  expect(await of('1', 'x')).not.toBe(await of('1', 'x', ['install-python 3.14']))
})

test('copies manifests beside the archive, except links', async () => {
  const entries: HandmadeEntry[] = [
    { name: 'link.txt', mode: '120000', content: '/etc/passwd' },
    { name: 'pkg', entries: [{ name: 'package.json', content: '{}' }] },
  ]
  const { folder } = await writeFixture(entries, ['link.txt', 'pkg/package.json'])
  expect((await readdir(folder, { recursive: true })).sort()).toEqual([
    'Dockerfile',
    'manifests',
    'manifests/pkg',
    'manifests/pkg/package.json',
    'repo.tar.gz',
  ])
})

test.each<[string, HandmadeEntry[], string]>([
  ['above the tree', [{ name: '..', entries: [{ name: 'x', content: '' }] }], 'git does not check out files'],
  [
    'in the folder of git',
    [{ name: '.GIT', entries: [{ name: 'config', content: '' }] }],
    'git does not check out files',
  ],
  [
    'in a folder that looks like it',
    [{ name: Buffer.from('.g\u200cit').toString('latin1'), entries: [{ name: 'config', content: '' }] }],
    'git does not check out files',
  ],
  [
    'a link and a folder',
    [
      { name: 'a', mode: '120000', content: '/etc' },
      { name: 'a', entries: [{ name: 'passwd', content: '' }] },
    ],
    'have the same name',
  ],
  ['bytes that are no text', [{ name: 'caf\xe9', content: '' }], 'not UTF-8'],
])('refuses a tree with a name that is %s', async (_, entries, why) => {
  expect(await read(entries)).toMatchObject({
    kind: 'rejected',
    reason: 'env_build_failed',
    detail: expect.stringContaining(why),
  })
})

test('refuses a tree with a huge file', async () => {
  expect(await read([{ name: 'huge', content: Buffer.alloc(100 * 1024 * 1024 + 1) }])).toMatchObject({
    kind: 'rejected',
    reason: 'too_large',
    detail: expect.stringContaining('"huge"'),
  })
})

const nest = (depth: number, entries: HandmadeEntry[]): HandmadeEntry[] =>
  depth === 0 ? entries : [{ name: 'a', entries: nest(depth - 1, entries) }]

test.each([
  ['a file 64 folders deep', nest(64, [{ name: 'f', content: '' }]), 'more than 64 parts'],
  ['a long path', nest(5, [{ name: 'x'.repeat(991), content: '' }]), 'more than 1000 characters'],
])('refuses %s', async (_, entries, detail) => {
  expect(await read(entries)).toMatchObject({ reason: 'env_build_failed', detail: expect.stringContaining(detail) })
})

test('refuses a small tree whose paths are long together', async () => {
  const write = (args: string[], input: string): string =>
    execFileSync('git', args, { cwd: repository, input }).toString().trim()
  const blob = write(['hash-object', '-w', '--stdin'], '')
  const lines = Array.from({ length: 1000 }, (_, n) => `100644 blob ${blob}\tf${n}\n`)
  let tree = write(['mktree'], lines.join(''))
  for (let level = 0; level < 3; level++) tree = write(['mktree'], `040000 tree ${tree}\t${'x'.repeat(250)}\n`)
  // git stores the folder once.
  const folders = Array.from({ length: 50 }, (_, n) => `040000 tree ${tree}\td${n}\n`)
  const top = write(['mktree'], folders.join(''))
  const commit = write(['-c', 'user.name=a', '-c', 'user.email=a@example.org', 'commit-tree', '-m', 'x', top], '')
  await using clone = await openClone(repository, { signal })
  expect(await readTree({ location: clone.location }, commit, signal)).toMatchObject({ reason: 'too_large' })
})

test('checks files in deep folders in linear time', async () => {
  const folder = 'a/'.repeat(60)
  const paths = Array.from({ length: 50_000 }, (_, n) => `${folder}${n}`)
  expect(await cpuMs(() => findTreeFault(paths))).toBeLessThan(2000)
})
