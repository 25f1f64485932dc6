import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commitTree, makeRepository } from '../../../test/support/taskgen/handmade-trees.ts'
import { openClone } from '../../repos/mirror/local-clone.ts'
import { readTree } from '../../taskgen/environment/read-tree.ts'
import { readBlobs } from './git.ts'

let repository: string
beforeAll(async () => {
  repository = await mkdtemp(join(tmpdir(), 'assay-blobs-'))
  await makeRepository(repository)
})
afterAll(() => rm(repository, { recursive: true, force: true }))

const BYTES = 1_000_000

/** Lists the command lines of running processes that read files of the repository. */
const listReaders = (folder: string): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
      } catch {
        return ''
      }
    })
    .filter((line) => line.includes('cat-file') && line.includes(folder))

test('git ends when the caller stops reading after the first file', async () => {
  const { signal } = new AbortController()
  await using clone = await openClone(repository, { signal })
  const names = ['a.txt', 'b.txt', 'c.txt']
  const commit = await commitTree(
    repository,
    names.map((name) => ({ name, content: name.repeat(BYTES / name.length) })),
  )
  const tree = await readTree(clone, commit, signal)
  if (tree.kind !== 'done') throw new Error('The tree was rejected.')
  const folder = clone.location.repositoryArgs.join(' ')

  for await (const { path } of readBlobs(clone.location, tree.value.entries, { signal, bytesMax: 2 * BYTES })) {
    expect(path).toBe('a.txt')
    expect(listReaders(folder)).not.toEqual([])
    break
  }

  expect(listReaders(folder)).toEqual([])
})
