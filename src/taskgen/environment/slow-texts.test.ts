import { expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { listOwnPackages } from './build-environment.ts'
import { readCiServices } from './ci-services.ts'
import { detectRecipe, lintRecipe } from './propose-recipe.ts'
import { findTreeFault } from './read-tree.ts'

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

const WORKFLOW = '.github/workflows/ci.yml'
const GITLAB = '.gitlab-ci.yml'
const inWorkflow = (env: string, image = 'postgres') =>
  `env:\n  A: "${env}"\njobs:\n  test:\n    services:\n      db: "${image}"\n    env: {B: "${env}"}\n    steps: []\n`
const repeat = (count: number, line: (n: number) => string): string =>
  Array.from({ length: count }, (_, n) => line(n)).join('')
const TEN = (name: string): string => `[${Array(10).fill(name).join(', ')}]`

test.each([
  ['an expression that does not end', WORKFLOW, inWorkflow(`\${{${' '.repeat(200_000)}`)],
  ['many expressions', WORKFLOW, inWorkflow('${{ a '.repeat(600))],
  ['dots in the name of an image', WORKFLOW, inWorkflow('', '.'.repeat(200_000))],
  ['colons in the name of an image', WORKFLOW, inWorkflow('', `${':'.repeat(3500)}/`)],
  [
    'many jobs with variables',
    WORKFLOW,
    `env:\n${repeat(500, (n) => `  A${n}: "\${{ env.A1 }}"\n`)}jobs:\n${repeat(180, (n) => `  j${n}:\n    services: {a: a}\n`)}`,
  ],
  [
    'templates that name each other',
    GITLAB,
    `.l:\n  variables:\n${repeat(900, (n) => `    V${n}: a\n`)}.c: {extends: ${TEN('.l')}}\n.b: {extends: ${TEN('.c')}}\n.a: {extends: ${TEN('.b')}}\n${repeat(80, (n) => `j${n}: {extends: ${TEN('.a')}, services: [postgres]}\n`)}`,
  ],
  ['a template that names itself', GITLAB, '.a: {extends: .a}\ntest: {extends: .a, services: [postgres]}\n'],
  [
    'many variables, jobs and services',
    GITLAB,
    `variables:\n${repeat(500, (n) => `  V${n}: ${'$V1'.repeat(20)}\n`)}${repeat(150, (n) => `j${n}:\n  services: [a, b, c, d, e, f]\n`)}`,
  ],
])('reads the services of a CI file with %s in time', async (_, path, text) => {
  const tree = { paths: new Set([path]), texts: new Map([[path, text]]) }
  expect(await cpuMs(() => readCiServices(tree))).toBeLessThan(MOST_MS)
})

test.each([
  ['pom.xml', '<parent>'],
  ['pom.xml', '<parent></build>'],
  ['pom.xml', '<parent></parent>'],
  ['package.json', '"jest" '],
  ['setup.py', 'name '],
])('scans many files %s of %j in time', async (name, piece) => {
  const texts = new Map(Array.from({ length: 32 }, (_, n) => [`p${n}/${name}`, filled(piece)]))
  const tree = { paths: new Set([...texts.keys(), 'test_a.py']), texts }
  expect(await cpuMs(() => [detectRecipe(tree, [], tree), listOwnPackages(tree)])).toBeLessThan(MOST_MS)
})

const numbered = (count: number, name: (n: number) => string): string[] =>
  Array.from({ length: count }, (_, n) => name(n))
const PACKAGES = JSON.stringify({
  name: 'a',
  dependencies: Object.fromEntries(numbered(20_000, (n) => `p${n}`).map((name) => [name, '1'])),
})

test.each([
  [
    'a dependency group that includes itself many times',
    { 'pyproject.toml': `[dependency-groups]\ndev = [${Array(200).fill('{include-group = "dev"}').join(',')}]\n` },
    ['test_a.py'],
  ],
  [
    'a range of Node versions with many parts',
    {
      'package.json': JSON.stringify({
        engines: { node: numbered(20_000, (n) => `>=1.0.${n}`).join(' ') },
        devDependencies: { vitest: '1' },
      }),
    },
    ['a.test.js'],
  ],
  [
    'a crate that names many files',
    { 'Cargo.toml': `[package]\nname="a"\n${repeat(20_000, (n) => `path="d/x${n}.rsx.rs"\n`)}` },
    numbered(90_000, (n) => `d/x${n}.rsx.rt`),
  ],
  [
    'many crates',
    {},
    ['Cargo.toml', ...numbered(40_000, (n) => `c${n}/Cargo.toml`), ...numbered(50_000, (n) => `d/${n}`)],
  ],
  [
    'many packages below one with many dependencies',
    {
      'package.json': PACKAGES,
      ...Object.fromEntries(numbered(399, (n) => `p${n}/package.json`).map((path) => [path, '{"name":"x"}'])),
    },
    ['a.test.js'],
  ],
])('reads %s in time', async (_, files: Record<string, string>, others: string[]) => {
  const tree = { paths: new Set([...Object.keys(files), ...others]), texts: new Map(Object.entries(files)) }
  expect(await cpuMs(() => [detectRecipe(tree, [], tree), listOwnPackages(tree)])).toBeLessThan(MOST_MS)
})

const DEEP = numbered(100_000, (n) => `${n}/${'a/'.repeat(62)}f`).sort()

test('refuses a tree with more folders than could be listed in time', async () => {
  let fault: string | undefined
  expect(
    await cpuMs(() => {
      fault = findTreeFault(DEEP)
    }),
  ).toBeLessThan(MOST_MS)
  expect(fault).toMatch(/more than \d+ folders/)
})

test('checks the wildcards of a recipe against many paths in time', async () => {
  const paths = new Set(numbered(100_000, (n) => `${'d/'.repeat(60)}f${n}`))
  const wildcards = `rm ${numbered(120, (n) => `z${n}*`).join(' ')}`
  const recipe = {
    base: 'debian:trixie-slim',
    runner: 'pytest',
    aptPackages: [],
    env: {},
    toolchain: [],
    manifests: [],
    setup: Array(20).fill(wildcards),
    build: Array(20).fill(wildcards),
  }
  const facts = { bases: [recipe.base], runners: [recipe.runner], paths, ownPackages: [] }
  expect(await cpuMs(() => lintRecipe(recipe, facts))).toBeLessThan(MOST_MS)
})
