import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commitTree, type HandmadeEntry, makeRepository } from '../../../test/support/taskgen/handmade-trees.ts'
import { doneOf } from '../../../test/support/taskgen/prepared-pull-request.ts'
import { openClone } from '../../repos/mirror/local-clone.ts'
import { listLfsPointers, readTree } from './read-tree.ts'

let repository: string
beforeAll(async () => {
  repository = await mkdtemp(join(tmpdir(), 'assay-lfs-'))
  await makeRepository(repository)
})
afterAll(() => rm(repository, { recursive: true, force: true }))

const signal = new AbortController().signal
const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 12345\n`
const ATTRIBUTES: HandmadeEntry = { name: '.gitattributes', content: '*.bin filter=lfs diff=lfs merge=lfs -text\n' }

async function list(entries: HandmadeEntry[]): Promise<string[]> {
  await using clone = await openClone(repository, { signal })
  const tree = doneOf(await readTree(clone, await commitTree(repository, entries), signal))
  return await listLfsPointers(clone.location, tree.entries, signal)
}

test('lists pointers in any folder and nothing else', async () => {
  const found = await list([
    { name: '.mailmap', content: 'x'.repeat(130) },
    {
      name: 'assets',
      entries: [
        ATTRIBUTES,
        { name: 'a.bin', content: POINTER },
        { name: 'b.bin', content: `${POINTER}${'x'.repeat(2000)}` },
        { name: 'c.bin', content: 'x'.repeat(130) },
        { name: 'd.bin', mode: '120000', content: POINTER },
        {
          name: 'e.bin',
          content: `version https://git-lfs.github.com/spec/v1\next-0-x sha256:1\n${POINTER.slice(43)}`,
        },
      ],
    },
  ])
  expect(found).toEqual(['assets/a.bin', 'assets/e.bin'])
})

test('does not search a tree without the attribute', async () => {
  expect(await list([{ name: 'a.bin', content: POINTER }])).toEqual([])
})
