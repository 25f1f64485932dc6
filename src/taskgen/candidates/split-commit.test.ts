import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commitTree, type HandmadeEntry, makeRepository } from '../../../test/support/taskgen/handmade-trees.ts'
import { openClone } from '../../repos/mirror/local-clone.ts'
import { splitCommit, widenSource } from './split-commit.ts'

let root: string
let repository: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-split-commit-'))
  repository = join(root, 'repository')
  await makeRepository(repository)
})
afterAll(() => rm(root, { recursive: true, force: true }))

const signal = new AbortController().signal

async function split(before: HandmadeEntry[], after: HandmadeEntry[]) {
  const base = await commitTree(repository, before)
  const head = await commitTree(repository, after, base)
  await using clone = await openClone(repository, { signal })
  return await splitCommit({ location: clone.location }, { base, head }, signal)
}

const BEFORE: HandmadeEntry[] = [
  { name: 'app.py', content: 'a\nb\n' },
  { name: 'README.md', content: '#\n' },
  {
    name: 'tests',
    entries: [
      { name: 'old_test.py', content: 'x\n' },
      { name: 'test_app.py', content: 'one\n' },
    ],
  },
]
const AFTER: HandmadeEntry[] = [
  { name: 'app.py', content: Buffer.from('a\ncaf\xe9\r\n', 'latin1') },
  { name: 'README.md', content: '##\n' },
  {
    name: 'tests',
    entries: [
      { name: '-data "x"\n.bin', content: Buffer.from([0, 255, 10]) },
      { name: 'run.sh', mode: '100755', content: 'ok\n' },
      { name: 'test_app.py', content: Buffer.from('caf\xe9\n', 'latin1') },
    ],
  },
]

test('splits a change with the tests of the head and writes nothing to the repository', async () => {
  const made = await split(BEFORE, AFTER)
  expect(made).toMatchObject({
    kind: 'done',
    value: {
      source: expect.stringContaining('+caf\xe9\r\n'),
      rest: expect.stringContaining('README.md'),
      hidden: {
        deleted: ['tests/old_test.py'],
        files: [
          { path: 'tests/-data "x"\n.bin', content: '\0\xff\n', executable: false },
          { path: 'tests/run.sh', content: 'ok\n', executable: true },
          { path: 'tests/test_app.py', content: 'caf\xe9\n', executable: false },
        ],
      },
    },
  })
  const before = await readdir(repository, { recursive: true })
  expect(await split(BEFORE, AFTER)).toEqual(made)
  expect(await readdir(repository, { recursive: true })).toEqual(before)
})

test('refuses tests that are links', async () => {
  const after: HandmadeEntry[] = [
    { name: 'tests', entries: [{ name: 'link', mode: '120000', content: '/etc/passwd' }] },
  ]
  expect(await split([], after)).toMatchObject({ kind: 'rejected', reason: 'split_not_lossless' })
})

test('refuses a name that is not valid text', async () => {
  const made = await split([], [{ name: 'caf\xe9.py', content: '' }])
  expect(made).toMatchObject({ kind: 'rejected', reason: 'split_not_lossless' })
})

test('refuses a tree that git cannot write again', async () => {
  const twice: HandmadeEntry[] = [
    { name: 'a.py', content: '1' },
    { name: 'a.py', content: '2' },
  ]
  expect(await split([], twice)).toMatchObject({ kind: 'rejected' })
  const above: HandmadeEntry[] = [{ name: '..', entries: [{ name: 'a.py', content: '1' }] }]
  expect(await split([], above)).toMatchObject({ kind: 'rejected', reason: 'patch_does_not_apply' })
})

test('rejects a missing base commit', async () => {
  await using clone = await openClone(repository, { signal })
  const none = '2'.repeat(40)
  expect(await splitCommit({ location: clone.location }, { base: none, head: none }, signal)).toMatchObject({
    reason: 'no_base',
  })
})

test('rejects source of few lines and many bytes as too large', async () => {
  const made = await split([], [{ name: 'a.py', content: `${'x'.repeat(600 * 1024)}\n` }])
  expect(made).toMatchObject({ kind: 'rejected', reason: 'too_large' })
})

test('the widened source patch has whole files as context, and no tests', async () => {
  const lines = (last: string) => `${'same\n'.repeat(30)}${last}\n`
  const tree = (last: string): HandmadeEntry[] => [
    { name: 'app.py', content: lines(last) },
    { name: 'test_app.py', content: `${last}\n` },
  ]
  const base = await commitTree(repository, tree('one'))
  const head = await commitTree(repository, tree('two'), base)
  await using clone = await openClone(repository, { signal })
  const change = await splitCommit({ location: clone.location }, { base, head }, signal)
  if (change.kind !== 'done') throw new Error(change.detail)
  const wide = await widenSource(clone.location, change.value, signal)
  expect(change.value.source.match(/^ same$/gm)).toHaveLength(3)
  expect(wide.match(/^ same$/gm)).toHaveLength(30)
  expect(wide).toContain('+two')
  expect(wide).not.toContain('test_app.py')
})
