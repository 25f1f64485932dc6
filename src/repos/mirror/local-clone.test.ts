import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commitTree, makeRepository } from '../../../test/support/taskgen/handmade-trees.ts'
import { openClone, RepositoryUnreadable } from './local-clone.ts'

let root: string
let folder: string
let commits: string[]
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-clone-'))
  folder = join(root, 'many.git')
  await makeRepository(folder)
  commits = [
    await commitTree(folder, [{ name: 'a', content: 'a' }]),
    await commitTree(folder, [{ name: 'b', content: 'b' }]),
  ]
})
afterAll(() => rm(root, { recursive: true, force: true }))

const signal = new AbortController().signal
const packRefs = (names: readonly (readonly [string, string])[]) =>
  writeFile(
    join(folder, 'packed-refs'),
    `# pack-refs with: peeled fully-peeled sorted\n${names
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, id]) => `${id} ${name}\n`)
      .join('')}`,
  )

test('reads the heads of the 50,000 newest pull requests, and the default branch among any number of others', async () => {
  const [main = '', pull = ''] = commits
  const numbers = Array.from({ length: 60_000 }, (_, at) => at + 1)
  await packRefs([
    ['refs/heads/main', main],
    ...numbers.map((number) => [`refs/heads/a-${number}`, pull] as const),
    ...numbers.map((number) => [`refs/pull/${number}/head`, pull] as const),
  ])
  await using clone = await openClone(folder, { signal })
  expect(clone).toMatchObject({ branch: 'main', tip: main })
  expect(clone.pullHeads.size).toBe(50_000)
  expect([clone.pullHeads.has(10_000), clone.pullHeads.get(10_001), clone.pullHeads.get(60_000)]).toEqual([
    false,
    pull,
    pull,
  ])
})

test('prefers the default branch of the remote, and finds branches and pull requests of remotes', async () => {
  const [main = '', other = ''] = commits
  await packRefs([
    ['refs/heads/main', main],
    ['refs/heads/topic/x', other],
    ['refs/remotes/origin/trunk', other],
    ['refs/remotes/origin/pull/7', main],
    ['refs/remotes/up/pull/8/head', other],
    ['refs/pull/none/head', other],
  ])
  const open = async (branch?: string) => {
    await using clone = await openClone(folder, { signal, branch })
    return { branch: clone.branch, tip: clone.tip, pulls: Object.fromEntries(clone.pullHeads) }
  }
  expect(await open()).toEqual({ branch: 'main', tip: main, pulls: { 7: main, 8: other } })
  expect(await open('topic/x')).toMatchObject({ branch: 'topic/x', tip: other })
  expect(await open('trunk')).toMatchObject({ branch: 'trunk', tip: other })
  await expect(open('topic')).rejects.toThrow(RepositoryUnreadable)
  await expect(open('*')).rejects.toThrow('Branch not found: *.')
})
