import { expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { listOwnPackages } from './build-environment.ts'
import { detectRecipe } from './propose-recipe.ts'

/** As long as a file may be that is read for this. */
const LENGTH = 512 * 1024

const filled = (piece: string): string => piece.repeat(Math.ceil(LENGTH / piece.length)).slice(0, LENGTH)

/** Nothing else of a process runs meanwhile: no lease of another job is held. */
const MOST_MS = 2000

test.each([
  ['requirements.txt', '\n'],
  ['requirements.txt', ' '],
  ['requirements.txt', '-e '],
  ['package.json', 'node '],
  ['package.json', '"jest" '],
  ['pyproject.toml', '['],
  ['setup.py', 'name '],
  ['setup.py', 'extras_require "a" '],
  ['setup.cfg', '[options.extras_require]\n'],
  ['pom.xml', '<parent>'],
  ['go.mod', 'module\n'],
  ['Cargo.toml', '[package]\nname = '],
  ['composer.json', '"name" : '],
  ['tox.ini', '[testenv]\ndeps = '],
  ['tox.ini', ' '],
  ['noxfile.py', 'def tests(session):\n session.install('],
  ['noxfile.py', '"'],
  ['uv.lock', '[[package]]\nname = "a"\n'],
  ['Pipfile.lock', '{"default":'],
  ['.github/workflows/ci.yml', 'python-version: ['],
])('scans a %s of %j in linear time', async (path, piece) => {
  const tree = { paths: new Set([path, 'test_a.py', 'a.test.js']), texts: new Map([[path, filled(piece)]]) }
  const landed = { paths: tree.paths, texts: new Map([[path, `a\n${filled(piece)}`]]) }
  const looked = await cpuMs(() => [
    detectRecipe(tree, [], landed),
    detectRecipe(tree, ['a.test.js'], landed),
    listOwnPackages(tree),
  ])
  expect(looked).toBeLessThan(MOST_MS)
})
