import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { git } from '../../../test/support/histories.ts'
import { commitTree, type HandmadeEntry, makeRepository } from '../../../test/support/taskgen/handmade-trees.ts'
import { openBuilder } from '../../../test/support/taskgen/image-builders.ts'
import { doneOf } from '../../../test/support/taskgen/prepared-pull-request.ts'
import { findRunner } from '../../grading/languages/languages.ts'
import { createSubmoduleOpener } from '../../repos/mirror/submodules.ts'
import { openMirror } from '../../repos/mirror.ts'
import { buildEnvironment } from './build-environment.ts'
import { checkHealth } from './check-health.ts'
import { detectRecipe } from './propose-recipe.ts'
import { readSubmodules } from './read-submodules.ts'
import { readTree } from './read-tree.ts'
import { scanImage } from './scan-image.ts'
import { writeEnvironment } from './write-environment.ts'

vi.setConfig({ testTimeout: 1_800_000 })

const signal = new AbortController().signal
let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-submodules-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

/** Writes a repository with one commit on its branch, and returns the id of the commit. */
async function publish(name: string, entries: HandmadeEntry[]): Promise<string> {
  const folder = join(root, name)
  await makeRepository(folder)
  await git(folder, ['config', 'uploadpack.allowFilter', 'true'])
  const commit = await commitTree(folder, entries)
  await git(folder, ['update-ref', 'refs/heads/main', commit])
  return commit
}

const gitmodules = (urls: Record<string, string>): HandmadeEntry => ({
  name: '.gitmodules',
  content: Object.entries(urls)
    .map(([path, url]) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`)
    .join(''),
})

/** Opens the mirror of a repository as a stage does, and reads its tree and submodules. */
async function readAll(name: string, commit: string) {
  const deps = { folder: join(root, 'mirrors'), gitAllow: [root], resolveName: async () => ['10.0.0.1'] }
  const source = { url: join(root, name), signal }
  const closing = new AsyncDisposableStack()
  const mirror = closing.use(await openMirror(deps, { ...source, id: name }))
  const repository = {
    ...mirror,
    openSubmodule: createSubmoduleOpener(deps, { ...source, key: name }),
    keep: (each: AsyncDisposable) => void closing.use(each),
  }
  const tree = doneOf(await readTree(repository, commit, signal))
  const result = await readSubmodules(repository, tree, signal)
  return { result, tree, location: mirror.location, [Symbol.asyncDispose]: () => closing.disposeAsync() }
}

const readPaths = async (name: string, entries: HandmadeEntry[]) => {
  await using read = await readAll(name, await publish(name, entries))
  return read.result.kind === 'done'
    ? read.result.value.flatMap((each) => each.entries.map(({ path }) => path))
    : read.result
}

describe('submodules of a tree', () => {
  test('are read at the commits that the tree names, nested ones too', async () => {
    const inner = await publish('inner', [{ name: 'deep.txt', content: 'deep' }])
    const lib = await publish('lib', [
      gitmodules({ inner: '../inner' }),
      { name: 'inner', mode: '160000', commit: inner },
      { name: 'lib.py', content: 'ONE = 1\n' },
    ])
    const newer = await commitTree(join(root, 'lib'), [{ name: 'newer.py', content: '' }], lib)
    await git(join(root, 'lib'), ['update-ref', 'refs/heads/main', newer])
    const paths = await readPaths('app', [
      gitmodules({ 'libs/one': '../lib' }),
      { name: 'libs', entries: [{ name: 'one', mode: '160000', commit: lib }] },
      { name: 'unmapped', mode: '160000' },
    ])
    expect(paths).toEqual(['libs/one/.gitmodules', 'libs/one/lib.py', 'libs/one/inner/deep.txt'])
  })

  test.each([
    ['a commit that is gone', 'gone', '../small', 'No branch of a submodule has the commit'],
    ['a repository that is gone', 'nowhere', '../nowhere-at-all', 'ASSAY_GIT_ALLOW'],
    ['a path outside of the allowed folders', 'outside', '/etc', 'ASSAY_GIT_ALLOW'],
    ['an option instead of an address', 'option', '"--upload-pack=touch proof"', 'Only https and ssh addresses'],
    ['a private server', 'private', 'https://inner.example.org/x.git', 'does not have a public address'],
  ])('reject a candidate with %s', async (_, name, url, reason) => {
    await publish('small', [{ name: 'a', content: 'a' }])
    const rejected = readPaths(name, [gitmodules({ lib: url }), { name: 'lib', mode: '160000' }])
    await expect(rejected).resolves.toMatchObject({
      kind: 'rejected',
      reason: 'submodule_unavailable',
      detail: expect.stringMatching(`^"lib/": .*${reason}`),
    })
    expect(await readdir(root)).not.toContain('proof')
  })

  test('reject a candidate if they contain themselves', async () => {
    const last = await publish('loop', [{ name: 'a', content: 'a' }])
    let commit = last
    for (const _ of [1, 2, 3, 4]) {
      const entries: HandmadeEntry[] = [gitmodules({ again: '../loop' }), { name: 'again', mode: '160000', commit }]
      commit = await commitTree(join(root, 'loop'), entries, commit)
    }
    await git(join(root, 'loop'), ['update-ref', 'refs/heads/main', commit])
    await using read = await readAll('loop', commit)
    expect(read.result).toMatchObject({ reason: 'submodule_unavailable', detail: expect.stringContaining('nested') })
  })

  test('reject a candidate if there are too many', async () => {
    const commit = await publish('many', [{ name: 'a', content: 'a' }])
    const names = Array.from({ length: 21 }, (_, at) => `m${at}`)
    const rejected = await readPaths('lots', [
      gitmodules(Object.fromEntries(names.map((name) => [name, '../many']))),
      ...names.map((name): HandmadeEntry => ({ name, mode: '160000', commit })),
    ])
    expect(rejected).toMatchObject({ reason: 'submodule_unavailable', detail: expect.stringContaining('more than 20') })
  })

  test('reject a candidate with a .gitmodules file that git cannot read', async () => {
    const entries: HandmadeEntry[] = [
      { name: '.gitmodules', content: '[submodule "a' },
      { name: 'a', mode: '160000' },
    ]
    expect(await readPaths('unreadable', entries)).toMatchObject({ reason: 'submodule_unavailable' })
  })
})

test('an image has the files of submodules, a clean status, and the tree of the base', async () => {
  await using builder = await openBuilder('local')
  const lib = await publish('shelf', [
    { name: 'shelf.py', content: 'def double(x):\n    return 2 * x\n' },
    { name: 'run.sh', mode: '100755', content: '#!/bin/sh\n' },
  ])
  const commit = await publish('shop', [
    gitmodules({ shelf: '../shelf' }),
    { name: '.python-version', content: '3.13\n' },
    { name: 'empty', mode: '160000' },
    { name: 'pyproject.toml', content: '[tool.pytest.ini_options]\npythonpath = ["shelf"]\n' },
    { name: 'shelf', mode: '160000', commit: lib },
    {
      name: 'test_shop.py',
      content:
        'import os\nimport shelf\n\n\ndef test_double():\n    assert shelf.double(2) == 4\n    assert os.access("shelf/run.sh", os.X_OK) and os.listdir("empty") == []\n',
    },
  ])
  await using read = await readAll('shop', commit)
  const { tree, location } = read
  const recipe = detectRecipe(tree.facts)
  if ('kind' in recipe) throw new Error(recipe.detail)
  const folder = join(builder.folder, 'environment')
  await writeEnvironment(folder, { recipe, location, tree, submodules: doneOf(read.result) }, signal)
  const image = doneOf(await buildEnvironment(builder.provider, { folder, recipe }, signal))
  const answer = { source: '', hidden: { files: [], deleted: [] }, ownPackages: [], baseTree: tree.tree }
  expect(await scanImage(builder.provider, image, answer, signal)).toMatchObject({ kind: 'done' })
  const runner = findRunner(recipe.runner)
  const rules = { testsMin: 1, passedShareMin: 1, agreedShareMin: 1 }
  const input = { image, runner: recipe.runner, prepare: runner?.prepare ?? [], folder: builder.folder, rules }
  expect(await checkHealth(builder.provider, input, signal)).toMatchObject({ kind: 'done', value: { passed: 1 } })
})
