import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { processesNaming } from '../../../test/support/sandboxes/processes.ts'
import { type Builder, openBuilder } from '../../../test/support/taskgen/image-builders.ts'
import {
  doneOf,
  type PreparedPullRequest,
  preparePullRequest,
  scan,
} from '../../../test/support/taskgen/prepared-pull-request.ts'
import type { EnvRecipe } from '../../grading/languages/recipe.ts'

vi.setConfig({ testTimeout: 900_000, hookTimeout: 1_800_000 })

const ANSWER = 'def rank(values):\n    return sorted(values, key=lambda value: -value.rank_of_it)\n'
const BASE = {
  'ranks.py': 'def rank(values):\n    return values\n',
  'test_ranks.py': 'import unittest\n\n\nclass Ranks(unittest.TestCase):\n    def test_rank(self):\n        pass\n',
  '-rf': 'a dash\n',
  'a\nb "c".txt': 'a newline\n',
  'sch\xc3\xb6n \xe2\x98\x83.txt': 'bytes \xff\xfe\r\n',
  '.gitattributes':
    '* text=auto eol=crlf ident filter=lfs\nranks.py export-ignore\n*.txt working-tree-encoding=UTF-16\n',
  '.gitignore': 'kept.log\n',
  'kept.log': 'in the tree, although it is ignored\n',
  'build/dist/kept.js': 'var tracked = "although it is called a build"\n',
  'ident.txt': '$Id$\n',
}
const LANDED = { 'ranks.py': ANSWER, 'test_ranks.py': BASE['test_ranks.py'].replace('pass', 'self.assertTrue(True)') }

const building = (...lines: string[]) => ({
  adapt: (recipe: EnvRecipe): EnvRecipe => ({ ...recipe, build: [...recipe.build, ...lines] }),
})

/** Both in the long run. */
const SANDBOXES = process.env.ASSAY_TEST_LONG ? (['docker', 'local'] as const) : (['docker'] as const)

describe.each(SANDBOXES)('%s', (sandbox) => {
  let builder: Builder
  let made: PreparedPullRequest
  beforeAll(async () => {
    builder = await openBuilder(sandbox)
    made = await preparePullRequest(builder, BASE, LANDED)
  })
  afterAll(() => builder?.[Symbol.asyncDispose]())

  const built = (...lines: string[]) => preparePullRequest(builder, BASE, LANDED, building(...lines))
  const scanned = async (...lines: string[]) => scan(builder, await built(...lines))

  test('commits a tree with hostile names and attributes unchanged', async () => {
    expect(made.recipe.runner).toBe('unittest')
    expect(await scan(builder, made)).toEqual({ kind: 'done', value: null })
  })

  test.each<[string, string, string, string]>([
    ['a file beside the tree', 'echo x > left-over.txt', 'env_build_failed', 'left-over.txt'],
    ['a file of the tree that was changed', 'echo x >> ranks.py', 'env_build_failed', 'ranks.py'],
    [
      'a second commit',
      'git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x',
      'leak_in_image',
      'more than one commit',
    ],
    ['a tag', 'git tag v2', 'leak_in_image', 'more than one ref'],
    ['what git has lost', 'echo secret | git hash-object -w --stdin', 'leak_in_image', 'Unreachable object'],
    [
      'the fix, built',
      `mkdir /opt/dist && printf '%s\\n' 'x' '  return sorted(values, key=lambda value: -value.rank_of_it)  ' > /opt/dist/bundle.js`,
      'leak_in_image',
      '/opt/dist/bundle.js',
    ],
    [
      'the fixed file',
      `printf 'def rank(values):\\n    return sorted(values, key=lambda value: -value.rank_of_it)\\n' > /usr/lib/ranks.txt`,
      'leak_in_image',
      'is a file of the solution or its tests',
    ],
    [
      'a clone with the fix',
      `git init -q /srv/x && cd /srv/x && printf 'def rank(values):\\n    return sorted(values, key=lambda value: -value.rank_of_it)\\n' | git hash-object -w --stdin`,
      'leak_in_image',
      '/srv/x/.git has',
    ],
  ])('finds %s in the image', async (_, line, reason, named) => {
    expect(await scanned(line)).toMatchObject({ kind: 'rejected', reason, detail: expect.stringContaining(named) })
  })

  test('rejects a failed build with the end of its log', async () => {
    const { image } = await built('echo these are my last words >&2; exit 3')
    expect(image).toMatchObject({
      kind: 'rejected',
      reason: 'env_build_failed',
      detail: expect.stringContaining('my last words'),
    })
  })

  test('isolates a malicious build in its container', async () => {
    const proof = join(builder.folder, 'proof')
    const mark = `mark-${sandbox}-${process.pid}`
    const script = [
      `mkdir -p ${builder.folder}; echo x > ${proof}`,
      `for p in /proc/[0-9]*/root; do echo x > "$p${proof}.root"; done`,
      `kill -9 ${process.pid}`,
      'rm -rf --no-preserve-root /home /mnt /media',
      `(sh -c ': ${mark}; sleep 1000; :' &)`,
    ]
    const { image } = await built(`${script.join('; ')}; true`)
    expect(image.kind).toBe('done')
    await expect(access(proof)).rejects.toThrow('ENOENT')
    await expect(access(`${proof}.root`)).rejects.toThrow('ENOENT')
    expect(await processesNaming(`: ${mark}; sleep`)).toEqual([])
  })

  test('stops and rejects a build that does not end', async () => {
    const { image } = await preparePullRequest(builder, BASE, LANDED, { ...building('sleep 3000'), timeoutSec: 25 })
    expect(image).toMatchObject({
      kind: 'rejected',
      reason: 'env_build_failed',
      detail: expect.stringContaining('25 seconds'),
    })
  })

  test('defers when the base image is unavailable', async () => {
    const { image } = await preparePullRequest(builder, BASE, LANDED, {
      adapt: (recipe) => ({ ...recipe, base: 'debian:bookworm-slim' }),
    })
    expect(image).toMatchObject({
      kind: 'deferred',
      reason: 'config',
      detail: expect.stringContaining('bookworm-slim'),
    })
  })

  test('defers when a package server is unavailable', async () => {
    const line = 'git ls-remote https://packages.invalid/kit'
    const { image } = await preparePullRequest(builder, BASE, LANDED, building(line))
    expect(image).toMatchObject({ kind: 'deferred', reason: 'provider', detail: expect.stringContaining('invalid') })
  })

  test('a copy of an earlier version of the package itself is no leak', async () => {
    const base = {
      ...BASE,
      'Cargo.toml': '[package]\nname = "kit"\nversion = "1.2.0"\n',
      'package.json': '{"name":"kit","version":"2.10.0"}',
      'package-lock.json': '{}',
      'pom.xml':
        '<project><groupId>org.kit</groupId><artifactId>core</artifactId><version>3-SNAPSHOT</version></project>',
    }
    const copy = (rust: string, node: string, java: string) => [
      `mkdir -p /opt/deps/cargo/registry/src/index/kit-${rust} /opt/deps/m2/org/kit/core/2.9 /opt/deps/m2/org/kit/core/${java}`,
      `mkdir -p /srv/node_modules/kit && printf '{"version":"${node}"}' > /srv/node_modules/kit/package.json`,
    ]
    const earlier = await preparePullRequest(builder, base, LANDED, building(...copy('1.1.12', '2.10.0', '2.10')))
    expect(await scan(builder, earlier)).toEqual({ kind: 'done', value: null })
    const later = await preparePullRequest(builder, base, LANDED, building(...copy('1.2.0', '2.11.0', '3.0.1')))
    expect(await scan(builder, later)).toMatchObject({
      reason: 'leak_in_image',
      detail: expect.stringMatching(/^(?=.*kit-1\.2\.0)(?=.*\/srv\/node_modules\/kit)(?=.*org\/kit\/core)/s),
    })
  })

  test('finds a copy of the package itself from a registry', async () => {
    const base = {
      ...BASE,
      'setup.py': "from setuptools import setup\nsetup(name='iniconfig', version='1', py_modules=['ranks'])\n",
    }
    const clean = await preparePullRequest(builder, base, LANDED)
    expect(await scan(builder, clean)).toEqual({ kind: 'done', value: null })
    const copied = await preparePullRequest(builder, base, LANDED, building('pip install --target /srv/more iniconfig'))
    expect(await scan(builder, copied)).toMatchObject({
      reason: 'leak_in_image',
      detail: expect.stringContaining('python:iniconfig'),
    })
  })

  test('concurrent builds of one profile install the shared part once', async () => {
    const lines: string[] = []
    const both = ['one.py', 'two.py'].map((name) =>
      preparePullRequest(builder, { ...BASE, [name]: '' }, LANDED, {
        adapt: (recipe) => ({ ...recipe, setup: [...recipe.setup, "printf 'installed-%s\\n' once"] }),
        onLog: (line) => lines.push(line.trim()),
      }),
    )
    const [one, two] = await Promise.all(both)
    expect(one && doneOf(one.image).digest).not.toBe(two && doneOf(two.image).digest)
    expect(lines.filter((line) => line === 'installed-once')).toHaveLength(1)
  })

  test('a discarded image leaves its shared layers to the next candidate', async () => {
    const lines: string[] = []
    const count = (text: string) => lines.filter((line) => line === text).length
    const make = async (name: string) => {
      const made = await preparePullRequest(builder, { ...BASE, [name]: '' }, LANDED, {
        adapt: (recipe) => ({
          ...recipe,
          setup: [...recipe.setup, "printf 'shared-%s\\n' part"],
          build: [...recipe.build, "printf 'own-%s\\n' part"],
        }),
        onLog: (line) => lines.push(line.trim()),
      })
      return doneOf(made.image)
    }
    await builder.provider.discard(await make('three.py'))
    await make('four.py')
    expect([count('shared-part'), count('own-part')]).toEqual([1, 2])
    await make('three.py')
    expect([count('shared-part'), count('own-part')]).toEqual([1, 3])
  })
})
