import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { git } from '../../../../test/support/histories.ts'
import { commitTree, type HandmadeEntry, makeRepository } from '../../../../test/support/taskgen/handmade-trees.ts'
import { createSubmoduleOpener } from '../../../repos/mirror/submodules.ts'
import { openMirror } from '../../../repos/mirror.ts'
import type { CandidateState, StageContext, StageRepository } from '../stage.ts'
import { readBase } from './candidate-inputs.ts'
import { splitStage } from './stages.ts'

const { signal } = new AbortController()
let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-split-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

async function publish(name: string, trees: HandmadeEntry[][]): Promise<string[]> {
  const folder = join(root, name)
  await makeRepository(folder)
  await git(folder, ['config', 'uploadpack.allowFilter', 'true'])
  const commits: string[] = []
  for (const entries of trees) commits.push(await commitTree(folder, entries, commits.at(-1)))
  await git(folder, ['update-ref', 'refs/heads/main', commits.at(-1) ?? ''])
  return commits
}

/** Opens the repository as every stage does. */
async function openRepository(closing: AsyncDisposableStack): Promise<StageRepository> {
  const deps = { folder: join(root, 'mirrors'), gitAllow: [root], resolveName: async () => ['10.0.0.1'] }
  const source = { url: join(root, 'app'), signal }
  const mirror = closing.use(await openMirror(deps, { ...source, id: 'app' }))
  const openSubmodule = createSubmoduleOpener(deps, { ...source, key: 'app' })
  return { ...mirror, openSubmodule, upstream: [], keep: (each) => void closing.use(each) }
}

test('fetches all files, so that stages with a sandbox do not wait for the servers of submodules', async () => {
  await using closing = new AsyncDisposableStack()
  const [library = ''] = await publish('library', [[{ name: 'lib.py', content: 'ONE = 1\n' }]])
  const gitmodules = { name: '.gitmodules', content: '[submodule "library"]\n\tpath = library\n\turl = ../library\n' }
  const link: HandmadeEntry = { name: 'library', mode: '160000', commit: library }
  const [base = '', head = ''] = await publish('app', [
    [gitmodules, { name: 'a.py', content: 'A = 1\n' }, link],
    [gitmodules, { name: 'a.py', content: 'A = 2\n' }, link, { name: 'test_a.py', content: 'assert A\n' }],
  ])
  const repository = await openRepository(closing)
  const context = { repository: async () => repository } as Partial<StageContext> as StageContext
  const state = { candidate: { base, head } } as CandidateState
  expect(await splitStage.run(state, context, signal)).toMatchObject({ kind: 'done' })

  await rm(join(root, 'library', 'objects'), { recursive: true })
  const { submodules } = await readBase(state, context, signal)
  expect(submodules.flatMap(({ entries }) => entries.map(({ path }) => path))).toEqual(['library/lib.py'])
})
